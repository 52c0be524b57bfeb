/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mappings of live processes, read as their samples come. */
#ifndef LOCKLINE_LIVE_MAPS_H
#define LOCKLINE_LIVE_MAPS_H

#include <stdio.h>
#include <linux/types.h>

#include "memory/memory_tasks.h"

struct live_process {
	__u32 pid;
	__u64 read_ns;
};

struct live_maps {
	struct memory_tasks *tasks;
	struct live_process *processes;
	__u32 count;
	__u32 capacity;
	struct hash_index index;
	__u64 unread; /* processes that were gone, or hide their mappings */
};

/* The kernel: all addresses of its half, with its symbols where _text is known (0: not). */
int live_maps_kernel(struct memory_tasks *tasks, __u64 text);
/* Reads /proc/PID/maps if it was not read in the last second.  Negative errno: out of memory. */
int live_maps_read(struct live_maps *maps, __u32 pid, __u64 now_ns);
/* The same from an open file, for tests. */
int live_maps_parse(struct memory_tasks *tasks, __u32 pid, FILE *file);
void live_maps_close(struct live_maps *maps);

#endif /* LOCKLINE_LIVE_MAPS_H */
