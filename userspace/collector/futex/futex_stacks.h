/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The copies of stacks that come with samples of futex waits and wakes, unwound. */
#ifndef LOCKLINE_FUTEX_STACKS_H
#define LOCKLINE_FUTEX_STACKS_H

#include "bpf/futex.h"
#include "naming/user_unwind.h"
#include "probes/maps.h"

struct futex_stacks {
	struct mapped_array copies;
	__u32 per_cpu;
	struct user_unwind *unwind;
};

int futex_stacks_open(struct futex_stacks *stacks, struct bpf_map *map, __u32 cpus);
void futex_stacks_close(struct futex_stacks *stacks);
/* The event's frames from its copy; without one, or where the leaf's code tells nothing, those that it has stay. */
void futex_stacks_unwind(struct futex_stacks *stacks, __u32 cpu, struct futex_event *event);

#endif /* LOCKLINE_FUTEX_STACKS_H */
