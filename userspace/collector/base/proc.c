// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/small_file.h"

/* Fields of /proc/ID/stat as proc(5) counts them. */
#define FIELD_STATE     3
#define FIELD_PARENT    4
#define FIELD_CPU_FIRST 14 /* user, system; the same of children */
#define FIELD_CPU_LAST  17
#define FIELD_PRIORITY  18
#define FIELD_THREADS   20
#define FIELD_START     22
#define FIELD_POLICY    41

/* The kernel shows priorities less this. */
#define MAX_RT_PRIO 100

void proc_path(char *out, size_t size, __u32 id, const char *format, ...)
{
	int used = snprintf(out, size, "/proc/%u/", id);
	va_list arguments;

	if (used < 0 || (size_t)used >= size)
		return;
	va_start(arguments, format);
	vsnprintf(out + used, size - used, format, arguments);
	va_end(arguments);
}

FILE *proc_open(__u32 id, const char *name)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), id, "%s", name);
	return fopen(path, "re");
}

int proc_open_fd(__u32 id, const char *name)
{
	char path[PROC_PATH];
	int fd;

	proc_path(path, sizeof(path), id, "%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

DIR *proc_open_directory(__u32 id, const char *name)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), id, "%s", name);
	return opendir(path);
}

__u32 proc_next(DIR *directory)
{
	struct dirent *entry;
	__u32 id = 0;

	while (!id && (entry = readdir(directory)))
		if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name))
			id = strtoul(entry->d_name, NULL, 10);
	return id;
}

ssize_t proc_read(__u32 id, const char *name, char *out, size_t size)
{
	int fd = proc_open_fd(id, name);
	ssize_t length;

	*out = 0;
	if (fd < 0)
		return fd;
	length = read(fd, out, size - 1);
	if (length < 0)
		length = -errno;
	close(fd);
	out[length < 0 ? 0 : length] = 0;
	return length;
}

int proc_line(__u32 id, const char *name, char *out, size_t size)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), id, "%s", name);
	return first_line(path, out, size);
}

int proc_status(__u32 id, const char *key, char *out, size_t size)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), id, "status");
	return value_of_key(path, key, out, size);
}

int proc_thread_status(__u32 tgid, __u32 tid, const char *key, char *out, size_t size)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), tgid, "task/%u/status", tid);
	return value_of_key(path, key, out, size);
}

__u32 proc_last_number(const char *text)
{
	const char *last = text + strlen(text);

	while (last > text && last[-1] >= '0' && last[-1] <= '9')
		last--;
	return strtoul(last, NULL, 10);
}

__u32 proc_own_id(__u32 tgid, __u32 tid)
{
	char ids[512];

	return proc_thread_status(tgid, tid, "NSpid", ids, sizeof(ids)) ? 0 : proc_last_number(ids);
}

int proc_comm(__u32 id, char *out, size_t size)
{
	return proc_line(id, "comm", out, size);
}

int process_stat_parse(const char *text, struct process_stat *out)
{
	/* The command may hold spaces and brackets; what follows holds none. */
	const char *p = strrchr(text, ')');
	unsigned long long threads = 0;

	*out = (struct process_stat){.policy = -1};
	if (!p || p[1] != ' ' || !p[2])
		return -EINVAL;
	for (int field = FIELD_STATE; field <= FIELD_POLICY; field++) {
		char *end;

		p = strchr(p + 1, ' ');
		if (!p)
			return field > FIELD_START ? 0 : -EINVAL;
		switch (field) {
		case FIELD_STATE:
			out->state = p[1];
			break;
		case FIELD_PARENT:
			out->parent = strtoul(p, NULL, 10);
			break;
		case FIELD_CPU_FIRST ... FIELD_CPU_LAST:
			out->cpu_ticks += strtoull(p, NULL, 10);
			break;
		case FIELD_PRIORITY:
			out->priority = strtol(p, NULL, 10) + MAX_RT_PRIO;
			break;
		case FIELD_THREADS:
			threads = strtoull(p, NULL, 10);
			break;
		case FIELD_START:
			out->start_time = strtoull(p + 1, &end, 10);
			out->ended = strchr("ZXx", out->state) && threads <= 1;
			if (end == p + 1)
				return -EINVAL;
			break;
		case FIELD_POLICY:
			out->policy = strtol(p, NULL, 10);
			break;
		}
	}
	return 0;
}

int process_stat_read(__u32 id, struct process_stat *out)
{
	char text[1024];
	ssize_t length = proc_read(id, "stat", text, sizeof(text));

	*out = (struct process_stat){.policy = -1};
	return length < 0 ? (int)length : process_stat_parse(text, out);
}

char task_state(__u32 id)
{
	char state[32];

	/* "S (sleeping)" */
	return proc_status(id, "State", state, sizeof(state)) ? 0 : state[0];
}

/* Inode of the first pid namespace, PROC_PID_INIT_INO of include/linux/proc_ns.h. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu

bool proc_has_program(__u32 id)
{
	char path[PROC_PATH], target[1];

	proc_path(path, sizeof(path), id, "exe");
	return readlink(path, target, sizeof(target)) >= 0;
}

bool proc_has_kernel_ids(void)
{
	struct stat namespace;

	return stat("/proc/self/ns/pid", &namespace) || namespace.st_ino == FIRST_PID_NAMESPACE;
}

bool task_gone(__u32 id)
{
	char state = task_state(id);

	return !state || state == 'Z' || state == 'X';
}

bool task_ended(__u32 id)
{
	return kill((pid_t)id, 0) && errno == ESRCH && proc_has_kernel_ids();
}

int task_leader(__u32 id, __u32 *tgid)
{
	char value[32];
	int err = proc_status(id, "Tgid", value, sizeof(value));

	if (!err)
		*tgid = strtoul(value, NULL, 10);
	return err;
}

bool proc_map_line_parse(char *line, struct proc_map_line *out)
{
	unsigned long long start, end, offset, inode;
	int at = 0;

	line[strcspn(line, "\n")] = 0;
	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, out->access, &offset, &out->major,
		   &out->minor, &inode, &at) != 7 ||
	    !at)
		return false;
	out->start = start;
	out->end = end;
	out->offset = offset;
	out->inode = inode;
	out->path = line + at;
	return true;
}

__u32 proc_threads(void)
{
	char text[128];
	unsigned int threads;

	/* Three averages, and running/all. */
	if (first_line("/proc/loadavg", text, sizeof(text)) < 0 || sscanf(text, "%*s %*s %*s %*u/%u", &threads) != 1)
		return 0;
	return threads;
}

bool proc_call_place(const char *line, __u64 *sp, __u64 *pc)
{
	const char *last = strrchr(line, ' '), *before = last;

	while (before && before > line && before[-1] != ' ')
		before--;
	if (!before || before == line)
		return false;
	*pc = strtoull(last, NULL, 16);
	*sp = strtoull(before, NULL, 16);
	return *pc && *sp;
}
