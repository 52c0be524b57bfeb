/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared arrays, mapped: read without a system call while the programs write them. */
#ifndef LOCKLINE_MAPS_H
#define LOCKLINE_MAPS_H

#include <stddef.h>
#include <linux/types.h>

#include "base/ring.h"
#include "bpf/lockline.h"
#include "probes/sizing.h"

struct bpf_map;
struct lockline_bpf;

struct mapped_array {
	void *data;
	size_t bytes;
};

struct maps {
	struct mapped_array cpu_states;
	struct mapped_array totals;
	struct mapped_array sleepers;
	struct mapped_array spin_stacks;
	struct mapped_array sleep_stacks;
	struct mapped_array wait_events;
	struct mapped_array task_filter;
	struct mapped_array holding_records; /* this and the rest: with --holders alone */
	struct mapped_array release_states;
	struct mapped_array release_stacks;
	struct mapped_array focus;
	struct mapped_array hold_rows;
	struct mapped_array sleep_owners;
	struct mapped_array context_records; /* this and the next: with --episodes alone */
	struct mapped_array context_states;
	const struct sizing *sizing;
};

/* One array, for readers of their own. */
int maps_map(struct mapped_array *array, const struct bpf_map *map);
void maps_unmap(struct mapped_array *array);

/* Before load: sizes of the maps in the object. */
int maps_resize(struct lockline_bpf *bpf, const struct sizing *sizing, bool task_filter);
/* After load. */
int maps_open(struct maps *maps, struct lockline_bpf *bpf, const struct sizing *sizing);
void maps_close(struct maps *maps);

struct cpu_state *maps_cpu(const struct maps *maps, __u32 cpu);
struct wait_row *maps_row(const struct maps *maps, __u32 cpu, __u32 row);
struct sleep_slot *maps_sleeper(const struct maps *maps, __u32 index);
const struct wait_stack *maps_spin_stack(const struct maps *maps, __u32 cpu, __u32 depth);
const struct wait_stack *maps_sleep_stack(const struct maps *maps, __u32 index, __u32 depth);
/* The CPU's ring of wait events. */
struct ring maps_events(const struct maps *maps, __u32 cpu);

struct release_state *maps_release(const struct maps *maps, __u32 cpu);
struct ring maps_holdings(const struct maps *maps, __u32 cpu);
const struct wait_stack *maps_release_stack(const struct maps *maps, __u32 cpu, __u32 slot);
/* FOCUS_LOCKS addresses. */
__u64 *maps_focus(const struct maps *maps);
const struct hold_row *maps_hold(const struct maps *maps, __u32 cpu, __u32 slot);
/* Who held the lock when a sleeping wait began: a tid, 0: not known, ~0: readers. */
__u32 maps_owner(const struct maps *maps, __u32 slot, __u32 depth);

struct ring maps_context(const struct maps *maps, __u32 cpu);

#endif /* LOCKLINE_MAPS_H */
