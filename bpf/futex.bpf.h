/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tasks inside futex calls (record --futex): found by tid, in an array as that of
 * sleeping waits (sleeping.bpf.h).  A slot belongs to its task; who wakes it
 * writes down when.
 */
#ifndef FUTEX_BPF_H
#define FUTEX_BPF_H

#include "state.bpf.h"
#include "compat.bpf.h"
#include "futex.h"

const volatile bool record_futexes __weak = false; /* --futex */
const volatile __u32 futex_rows_per_cpu __weak = 0;
const volatile __u32 futex_slot_mask __weak = 0;
const volatile __u32 futex_stacks_per_cpu __weak = 0; /* a power of two, or 0 */

SHARED_ARRAY(futex_slots, struct futex_slot);
SHARED_ARRAY(futex_rows, struct futex_row); /* the last of each CPU takes what finds none */
SHARED_ARRAY(futex_buckets, struct futex_bucket);
SHARED_ARRAY(futex_states, struct futex_state);
SHARED_ARRAY(futex_events, struct futex_event);
SHARED_ARRAY(futex_stacks, struct futex_stack);

static __always_inline struct futex_state *futex_state_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&futex_states, &cpu);
}

static __always_inline void count_futex(struct futex_state *state, enum futex_counter counter)
{
	__sync_fetch_and_add(&state->counters[counter], 1);
}

static __always_inline struct futex_slot *futex_slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&futex_slots, &index);
}

/* The slot of tid, or NULL. */
static __always_inline struct futex_slot *find_futex_slot(__u32 tid)
{
	__u32 home = tid & futex_slot_mask;
	struct futex_slot *slot = futex_slot_at(home);

	if (!slot || slot->tid == tid)
		return slot;
	if (!slot->displaced)
		return NULL;
	for (int probe = 1; probe < FUTEX_PROBES; probe++) {
		slot = futex_slot_at((home + probe) & futex_slot_mask);
		if (slot && slot->tid == tid)
			return slot;
	}
	return NULL;
}

/* A free slot for tid, which has none. */
static __always_inline struct futex_slot *claim_futex_slot(__u32 tid)
{
	__u32 home = tid & futex_slot_mask;

	for (int probe = 0; probe < FUTEX_PROBES; probe++) {
		struct futex_slot *slot = futex_slot_at((home + probe) & futex_slot_mask), *home_slot;

		if (!slot || slot->tid || __sync_val_compare_and_swap(&slot->tid, 0, tid))
			continue;
		home_slot = probe ? futex_slot_at(home) : NULL;
		if (home_slot)
			__sync_fetch_and_add(&home_slot->displaced, 1);
		return slot;
	}
	return NULL;
}

/* The collector may take back the slot of a wait that it met, at the same time: one of the two counts. */
static __always_inline void release_futex_slot(struct futex_slot *slot, __u32 tid)
{
	struct futex_slot *home = futex_slot_at(tid & futex_slot_mask);

	if (__sync_val_compare_and_swap(&slot->tid, tid, 0) == tid && home && home != slot)
		__sync_fetch_and_add(&home->displaced, -1);
}

#endif /* FUTEX_BPF_H */
