/* SPDX-License-Identifier: GPL-2.0-or-later */
/* On which node a CPU is, and a byte of memory. */
#ifndef LOCKLINE_MEMORY_TOPOLOGY_H
#define LOCKLINE_MEMORY_TOPOLOGY_H

#include <stdbool.h>
#include <linux/types.h>

#include "memory/memory_lines.h"

#define MEMORY_NODES 1024 /* MAX_NUMNODES of x86 and arm64 */

struct memory_range {
	__u64 start;
	__u64 end;
	__u32 node;
};

struct memory_topology {
	bool numa;
	__u16 node_of_cpu[MEMORY_CPUS]; /* node + 1; 0: not known */
	struct memory_range *ranges;    /* of physical memory, sorted */
	__u32 range_count;
};

/* The node of a physical address; -1: not known. */
int memory_node(const struct memory_topology *topology, __u64 physical);

#endif /* LOCKLINE_MEMORY_TOPOLOGY_H */
