/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How near CPUs are to one another, and which pairs of them stand for the rest where there are too many. */
#ifndef LOCKLINE_CPU_TOPOLOGY_H
#define LOCKLINE_CPU_TOPOLOGY_H

#include <stddef.h>
#include <linux/types.h>

/* Core and cache are named by their first CPU. */
struct cpu_place {
	__u32 cpu;
	__u32 core;
	__u32 cache; /* of the last level */
	__u32 node;
};

enum cpu_relation { SAME_CORE, SAME_CACHE, SAME_NODE, OTHER_NODE, CPU_RELATIONS };

extern const char *const cpu_relation_names[CPU_RELATIONS]; /* "same core", ... */

struct cpu_choice {
	__u32 first; /* below second */
	__u32 second;
	enum cpu_relation relation;
};

/* Where a CPU is, by sysfs ("/sys/devices/system/cpu"); what cannot be read stays apart: a core and a cache of its own, node 0. */
void cpu_place_read(struct cpu_place *place, __u32 cpu, const char *root);

/* All pairs, if there are no more than most of them: else of each cache one pair on one core and one of two cores, then first CPUs
 * of two caches, of far nodes first, then others at random, the same ones each time.  How many of them. */
size_t cpu_pairs_choose(struct cpu_choice *pairs, size_t most, const struct cpu_place *places, size_t count);

#endif /* LOCKLINE_CPU_TOPOLOGY_H */
