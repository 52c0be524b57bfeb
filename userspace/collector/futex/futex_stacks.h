/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The copies of stacks that come with samples of futex waits and wakes. */
#ifndef LOCKLINE_FUTEX_STACKS_H
#define LOCKLINE_FUTEX_STACKS_H

#include <stdbool.h>

#include "bpf/futex.h"
#include "naming/user_unwind.h"
#include "probes/maps.h"

struct futex_stacks {
	struct mapped_array copies;
	__u32 per_cpu;
};

int futex_stacks_open(struct futex_stacks *stacks, struct bpf_map *map, __u32 cpus);
void futex_stacks_close(struct futex_stacks *stacks);
/* The event's copy; false: it has none, or it is another sample's by now. */
bool futex_stacks_copy(const struct futex_stacks *stacks, __u32 cpu, const struct futex_event *event,
		       struct user_stack *out);

#endif /* LOCKLINE_FUTEX_STACKS_H */
