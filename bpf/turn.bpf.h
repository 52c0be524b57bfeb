/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings of turns: contended releases and ends of waits, for --holders
 * alone.  Without it the verifier drops all of this.
 */
#ifndef TURN_BPF_H
#define TURN_BPF_H

#include "state.bpf.h"
#include "compat.bpf.h"

static __always_inline struct release_state *release_state_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&release_states, &cpu);
}

/* The next record of the CPU's ring, its sequence taken away; NULL before the maps have their sizes. */
static __always_inline struct lock_turn *begin_turn(struct release_state *state, __u32 cpu, __u64 *position)
{
	__u32 index;
	struct lock_turn *turn;

	/* Atomic: unlocks in interrupts come between. */
	*position = __sync_fetch_and_add(&state->turns, 1);
	index = cpu * (turn_mask + 1) + (*position & turn_mask);
	turn = bpf_map_lookup_elem(&lock_turns, &index);
	if (turn)
		__sync_lock_test_and_set(&turn->sequence, 0);
	return turn;
}

static __always_inline void end_turn(struct lock_turn *turn, __u64 position)
{
	__sync_lock_test_and_set(&turn->sequence, position + 1);
}

/* The end of a wait, recorded with the lock held: one line of this CPU's own. */
static __noinline int record_wait_turn(__u64 lock, __u64 begin_ns, __u64 end_ns, __u32 kind, __u32 owner)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct release_state *state = release_state_of(cpu);
	__u64 pid_tgid = bpf_get_current_pid_tgid(), position;
	struct lock_turn *turn;

	if (!state)
		return 0;
	turn = begin_turn(state, cpu, &position);
	if (!turn)
		return 0;
	turn->time_ns = end_ns;
	turn->lock = lock;
	turn->begin_ns = begin_ns;
	turn->tid = pid_tgid;
	turn->tgid = pid_tgid >> 32;
	turn->owner_tid = owner == ~0u ? 0 : owner;
	turn->kind = kind;
	turn->flags = owner == ~0u ? TURN_READERS : 0;
	turn->stack = 0;
	end_turn(turn, position);
	return 0;
}

/* Test-and-set locks: a line that waiters and releasing CPUs share, for want of a bit in the lock word. */
static __always_inline void add_waiter(__u64 lock, __u32 change)
{
	__u32 index = lock_hash(lock, WAITER_COUNTS);
	struct waiter_count *count;

	if (!count_waiters || !lock)
		return;
	count = bpf_map_lookup_elem(&waiter_counts, &index);
	if (count)
		__sync_fetch_and_add(&count->waiters, change);
}

#endif /* TURN_BPF_H */
