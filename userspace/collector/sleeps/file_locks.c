// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/small_file.h"
#include "sleeps/file_locks.h"

/* Of /proc/locks no more is read. */
#define MOST_LINES 20000
/* Open files of a process that are compared with the locked one. */
#define MOST_FILES 1000

bool file_lock_parse(const char *line, struct file_lock_line *out)
{
	char arrow[4] = "";
	unsigned int major, minor;
	int used = 0;

	*out = (struct file_lock_line){};
	if (sscanf(line, "%u: %3s %n", &out->lock, arrow, &used) < 2)
		return false;
	out->waits = !strcmp(arrow, "->");
	if (!out->waits)
		used = strcspn(line, ":") + 1;
	if (sscanf(line + used, "%*s %*s %*s %d %63s", &out->pid, out->file) != 2)
		return false;
	return sscanf(out->file, "%x:%x:%llu", &major, &minor, &out->inode) == 3;
}

bool file_lock_may_wait(const char *function)
{
	static const char *const parts[] = {"lock_inode_wait", "lock_file_wait", "fcntl_setlk",
					    "sys_flock",       "nfs4_proc_lock", "nlmclnt_block"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(function, parts[i]))
			return true;
	return false;
}

/* Whether an open file of a process is that one; out is its path then. */
static bool is_file(__u32 pid, __u32 fd, __u64 inode, char *out, size_t size)
{
	char path[PROC_PATH], value[32];
	ssize_t length;

	proc_path(path, sizeof(path), pid, "fdinfo/%u", fd);
	if (value_of_key(path, "ino", value, sizeof(value)) || strtoull(value, NULL, 10) != inode)
		return false;
	proc_path(path, sizeof(path), pid, "fd/%u", fd);
	length = readlink(path, out, size - 1);
	if (length > 0) {
		out[length] = 0;
		make_printable(out);
	}
	return true;
}

/* The path of a process' open file, by its inode; out stays as it is if it has none. */
static void find_path(__u32 pid, __u64 inode, char *out, size_t size)
{
	DIR *directory = proc_open_directory(pid, "fdinfo");
	int files = 0;
	__u32 fd = 0;

	if (!directory)
		return;
	while (!is_file(pid, fd, inode, out, size) && files++ < MOST_FILES && (fd = proc_next(directory)))
		;
	closedir(directory);
}

/* Adds a wait, once for each process that waits. */
static int add(struct file_lock_wait *out, int count, int most, const struct file_lock_line *waits, __u32 holder)
{
	struct file_lock_wait *wait = &out[count];

	for (int i = 0; i < count; i++)
		if (out[i].waiter == (__u32)waits->pid && out[i].holder == holder)
			return count;
	if (count == most)
		return count;
	*wait = (struct file_lock_wait){.waiter = waits->pid, .holder = holder};
	snprintf(wait->file, sizeof(wait->file), "%s", waits->file);
	return count + 1;
}

int file_locks_read(struct file_lock_wait *out, int most)
{
	FILE *file = fopen("/proc/locks", "re");
	struct file_lock_line line;
	unsigned int lock = 0, major, minor;
	unsigned long long inode;
	__u32 holder = 0;
	int count = 0, lines = 0;
	size_t capacity = 0;
	char *text = NULL;

	/* Who waits stands below who has it, with the same number. */
	while (file && lines++ < MOST_LINES && getline(&text, &capacity, file) > 0) {
		if (!file_lock_parse(text, &line))
			continue;
		if (!line.waits) {
			lock = line.lock;
			holder = line.pid > 0 ? line.pid : 0;
		} else if (line.lock == lock && line.pid > 0) {
			count = add(out, count, most, &line, holder);
		}
	}
	free(text);
	if (file)
		fclose(file);
	/* After it: nobody has to wait for this. */
	for (int i = 0; i < count; i++)
		if (sscanf(out[i].file, "%x:%x:%llu", &major, &minor, &inode) == 3)
			find_path(out[i].waiter, inode, out[i].file, sizeof(out[i].file));
	return count;
}
