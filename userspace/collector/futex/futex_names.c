// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "futex/futex_names.h"

/* In a container the kernel is asked for each thread's own id: of so many at most. */
#define THREADS_LOOKED_AT 1024

void futex_place(__u32 tgid, __u64 address, struct futex_place *place)
{
	char path[40], *line = NULL;
	size_t capacity = 0;
	FILE *file;

	*place = (struct futex_place){};
	snprintf(path, sizeof(path), "/proc/%u/maps", tgid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (getline(&line, &capacity, file) > 0) {
		unsigned long long start, end, offset, inode;
		unsigned int major, minor;

		if (sscanf(line, "%llx-%llx %*s %llx %x:%x %llu", &start, &end, &offset, &major, &minor, &inode) != 6 ||
		    address < start || address >= end)
			continue;
		if (inode)
			*place = (struct futex_place){inode, offset + (address - start), major, minor};
		break;
	}
	free(line);
	fclose(file);
}

static bool same_namespace(__u32 tgid)
{
	struct stat own, other;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/ns/pid", tgid);
	return stat("/proc/self/ns/pid", &own) || stat(path, &other) ||
	       (own.st_ino == other.st_ino && own.st_dev == other.st_dev);
}

/* The thread's id in its own namespace: the last of the line NSpid. */
static __u32 own_id(__u32 tgid, const char *tid)
{
	char path[300], *line = NULL, *last;
	size_t capacity = 0;
	__u32 id = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/task/%s/status", tgid, tid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (!id && getline(&line, &capacity, file) > 0) {
		if (strncmp(line, "NSpid:", 6))
			continue;
		last = strrchr(line, '\t');
		id = last ? strtoul(last, NULL, 10) : 0;
	}
	free(line);
	fclose(file);
	return id;
}

__u32 futex_thread(__u32 tgid, __u32 tid)
{
	struct dirent *entry;
	char path[64];
	__u32 found = 0;
	DIR *dir;

	if (!tid || tid >> 22) /* PID_MAX_LIMIT */
		return 0;
	if (same_namespace(tgid)) {
		snprintf(path, sizeof(path), "/proc/%u/task/%u", tgid, tid);
		return access(path, F_OK) ? 0 : tid;
	}
	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	dir = opendir(path);
	for (int i = 0; dir && !found && i < THREADS_LOOKED_AT && (entry = readdir(dir)); i++)
		if (entry->d_name[0] != '.' && own_id(tgid, entry->d_name) == tid)
			found = strtoul(entry->d_name, NULL, 10);
	if (dir)
		closedir(dir);
	return found;
}
