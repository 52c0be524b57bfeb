/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a process says what the code is that it made at run time: /tmp/perf-PID.map, in its own mount namespace and
 * by its id in its own pid namespace.  The helper reads it: see naming_map.h.
 */
#ifndef LOCKLINE_PERF_MAP_H
#define LOCKLINE_PERF_MAP_H

#include <stdbool.h>
#include <sys/stat.h>
#include <linux/types.h>

struct perf_map {
	__u32 tgid;
	uid_t owner;        /* of the process, and of its file */
	__s64 start;        /* of the process, in seconds since 1970; its file is not older */
	bool in_our_mounts; /* what it leaves behind can be found here */
	char path[48];
};

/* While the process lives; negative errno. */
int perf_map_find(struct perf_map *map, __u32 tgid, __u64 start_ticks);
/* A descriptor, or negative errno.  A process may write its file as it ends: then it is looked for here. */
int perf_map_open(const struct perf_map *map, struct stat *status);

#endif /* LOCKLINE_PERF_MAP_H */
