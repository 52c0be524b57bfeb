// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/patience.h"
#include "base/proc.h"
#include "base/regular_file.h"
#include "naming/perf_map.h"

/* Clocks of the process's start and of the file are read at different times, and ticks are coarse. */
#define SLACK_SECONDS 2

/* The root may be of a file system that does not answer: which inode it is needs no answer. */
static bool same_inode(const char *ours, const char *theirs)
{
	struct statx a, b;

	return !statx(AT_FDCWD, ours, AT_STATX_DONT_SYNC, 0, &a) &&
	       !statx(AT_FDCWD, theirs, AT_STATX_DONT_SYNC, 0, &b) && a.stx_ino == b.stx_ino &&
	       a.stx_dev_major == b.stx_dev_major && a.stx_dev_minor == b.stx_dev_minor;
}

static bool in_our_mounts(__u32 tgid)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), tgid, "ns/mnt");
	if (!same_inode("/proc/self/ns/mnt", path))
		return false;
	/* It may have another root in them. */
	proc_path(path, sizeof(path), tgid, "root");
	return same_inode("/", path);
}

int perf_map_find(struct perf_map *map, __u32 tgid, __u64 start_ticks)
{
	struct timespec now, booted;
	char ids[128], users[128];
	unsigned int effective;

	*map = (struct perf_map){.tgid = tgid};
	if (proc_status(tgid, "NSpid", ids, sizeof(ids)) || proc_status(tgid, "Uid", users, sizeof(users)))
		return -ESRCH;
	if (sscanf(users, "%*u %u", &effective) != 1 || !proc_last_number(ids))
		return -EINVAL;
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &booted);
	map->owner = effective;
	map->start = now.tv_sec - booted.tv_sec + (__s64)(start_ticks / sysconf(_SC_CLK_TCK)) - SLACK_SECONDS;
	map->in_our_mounts = in_our_mounts(tgid);
	snprintf(map->path, sizeof(map->path), "/tmp/perf-%u.map", proc_last_number(ids));
	return 0;
}

int perf_map_open(const struct perf_map *map, struct stat *status)
{
	int fd = -ESRCH;

	if (*map->path)
		fd = patience_open_of(map->tgid, map->path, status);
	if (fd < 0 && map->in_our_mounts)
		fd = regular_file_open(map->path, LINK_REFUSED, status);
	/* Another's, or that of a process which had this id before. */
	if (fd >= 0 && (status->st_uid != map->owner || status->st_mtim.tv_sec < map->start)) {
		close(fd);
		fd = -ESTALE;
	}
	return fd;
}
