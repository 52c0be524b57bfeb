// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/regular_file.h"
#include "naming/perf_map.h"

/* Clocks of the process's start and of the file are read at different times, and ticks are coarse. */
#define SLACK_SECONDS 2

static bool in_our_mounts(__u32 tgid)
{
	struct stat ours, theirs;
	char path[PROC_PATH];

	proc_path(path, sizeof(path), tgid, "ns/mnt");
	if (stat("/proc/self/ns/mnt", &ours) || stat(path, &theirs) || ours.st_ino != theirs.st_ino)
		return false;
	/* It may have another root in them. */
	proc_path(path, sizeof(path), tgid, "root");
	return !stat("/", &ours) && !stat(path, &theirs) && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

/* The last of a line of numbers: its own of "NSpid". */
static __u32 last_number(const char *text)
{
	const char *last = text + strlen(text);

	while (last > text && last[-1] >= '0' && last[-1] <= '9')
		last--;
	return strtoul(last, NULL, 10);
}

int perf_map_find(struct perf_map *map, __u32 tgid, __u64 start_ticks)
{
	struct timespec now, booted;
	char ids[128], users[128];
	unsigned int effective;

	*map = (struct perf_map){.tgid = tgid};
	if (proc_status(tgid, "NSpid", ids, sizeof(ids)) || proc_status(tgid, "Uid", users, sizeof(users)))
		return -ESRCH;
	if (sscanf(users, "%*u %u", &effective) != 1 || !last_number(ids))
		return -EINVAL;
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &booted);
	map->owner = effective;
	map->start = now.tv_sec - booted.tv_sec + (__s64)(start_ticks / sysconf(_SC_CLK_TCK)) - SLACK_SECONDS;
	map->in_our_mounts = in_our_mounts(tgid);
	snprintf(map->path, sizeof(map->path), "/tmp/perf-%u.map", last_number(ids));
	return 0;
}

int perf_map_open(const struct perf_map *map, struct stat *status)
{
	int fd = -ESRCH;

	if (*map->path)
		fd = regular_file_open_of(map->tgid, map->path, status);
	if (fd < 0 && map->in_our_mounts)
		fd = regular_file_open(map->path, LINK_REFUSED, status);
	/* Another's, or that of a process which had this id before. */
	if (fd >= 0 && (status->st_uid != map->owner || status->st_mtim.tv_sec < map->start)) {
		close(fd);
		fd = -ESTALE;
	}
	return fd;
}
