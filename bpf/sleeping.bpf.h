/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sleeping waits in flight: one table for all CPUs, open addressing by tid,
 * one cache line per waiter.  Only the waiter touches its slot; a slot is
 * claimed by compare-and-swap.  `displaced` lets a look-up stop at the home
 * slot unless some tid of that home lives elsewhere.
 */
#ifndef SLEEPING_BPF_H
#define SLEEPING_BPF_H

#include "record.bpf.h"

static __always_inline struct sleep_slot *sleeper_at(__u32 index)
{
	return bpf_map_lookup_elem(&sleepers, &index);
}

/* Index of the slot of tid, or -1. */
static __always_inline __s32 find_sleeper(__u32 tid)
{
	__u32 home = tid & sleep_mask;
	struct sleep_slot *slot = sleeper_at(home);

	if (!slot)
		return -1;
	if (slot->tid == tid)
		return home;
	if (!slot->displaced)
		return -1;
	for (int probe = 1; probe < SLEEP_PROBES; probe++) {
		__u32 index = (home + probe) & sleep_mask;

		slot = sleeper_at(index);
		if (slot && slot->tid == tid)
			return index;
	}
	return -1;
}

static __always_inline __s32 claim_sleeper(__u32 tid)
{
	__u32 home = tid & sleep_mask;

	for (int probe = 0; probe < SLEEP_PROBES; probe++) {
		__u32 index = (home + probe) & sleep_mask;
		struct sleep_slot *slot = sleeper_at(index), *home_slot;

		if (!slot || slot->tid || __sync_val_compare_and_swap(&slot->tid, 0, tid))
			continue;
		slot->depth = 0;
		home_slot = sleeper_at(home);
		if (probe && home_slot)
			__sync_fetch_and_add(&home_slot->displaced, 1);
		return index;
	}
	return -1;
}

static __always_inline void release_sleeper(struct sleep_slot *slot, __u32 index, __u32 tid)
{
	__u32 home = tid & sleep_mask;
	struct sleep_slot *home_slot = sleeper_at(home);

	if (index != home && home_slot)
		__sync_fetch_and_add(&home_slot->displaced, -1);
	__sync_lock_test_and_set(&slot->tid, 0);
}

static __always_inline void begin_sleeping(void *ctx, struct cpu_state *state, __u32 cpu, __u64 lock, __u32 kind,
					   __u64 pid_tgid)
{
	__u32 tid = pid_tgid, depth, row_index;
	__s32 index = find_sleeper(tid);
	struct sleep_slot *slot;
	struct sleep_wait *wait;
	struct wait_row *row;

	if (index < 0)
		index = claim_sleeper(tid);
	slot = index < 0 ? NULL : sleeper_at(index);
	if (!slot) {
		count(state, COUNT_NO_SLOT, 1);
		return;
	}
	depth = slot->depth;
	if (depth) {
		wait = &slot->wait[(depth - 1) & (SLEEP_DEPTH - 1)];
		if (wait->lock == lock && (kind == KIND_MUTEX || kind == KIND_MUTEX_SPIN)) {
			/* A mutex begins anew each time it goes from spinning to sleeping and back. */
			if (kind == KIND_MUTEX)
				wait->kind = KIND_MUTEX;
			state->counters[COUNT_REPEATED]++;
			return;
		}
		if (wait->lock == lock) {
			/* No other lock begins twice: the end of the wait before was lost. */
			count(state, COUNT_ORPHANED, 1);
			depth--;
		} else if (depth >= SLEEP_DEPTH) {
			count(state, COUNT_TOO_DEEP, depth);
			depth = 0;
		} else {
			state->counters[COUNT_NESTED]++;
		}
	}
	wait = &slot->wait[depth & (SLEEP_DEPTH - 1)];
	wait->lock = lock;
	wait->kind = kind;
	wait->begin_cpu = cpu;
	row_index = find_row(state, cpu, lock, kind);
	row = row_at(cpu, row_index);
	wait->sampled = row && takes_sample(row);
	if (wait->sampled) {
		__u32 stack_index = index * SLEEP_DEPTH + (depth & (SLEEP_DEPTH - 1));
		struct wait_stack *stack = bpf_map_lookup_elem(&sleep_stacks, &stack_index);

		if (stack) {
			wait->kernel_frames = walk_kernel_stack(ctx, state, stack);
			wait->user_frames = user_stacks ? walk_user_stack(ctx, stack) : 0;
		}
	}
	slot->tgid = pid_tgid >> 32;
	wait->begin_ns = clock_now();
	barrier();
	slot->depth = (depth & (SLEEP_DEPTH - 1)) + 1;
}

static __always_inline bool end_sleeping(void *ctx, struct cpu_state *state, __u32 cpu, __u64 lock, __s32 result,
					 __u64 now)
{
	__u32 tid = bpf_get_current_pid_tgid(), depth, stack_index;
	__s32 index = find_sleeper(tid);
	struct ended_wait ended = {};
	struct sleep_slot *slot;
	struct sleep_wait *wait;

	slot = index < 0 ? NULL : sleeper_at(index);
	if (!slot || !slot->depth)
		return false;
	depth = slot->depth - 1;
	wait = &slot->wait[depth & (SLEEP_DEPTH - 1)];
	if (wait->lock != lock) {
		if (!depth || slot->wait[0].lock != lock)
			return false;
		/* The wait inside this one lost its end. */
		count(state, COUNT_ORPHANED, depth);
		depth = 0;
		wait = &slot->wait[0];
	}
	if (!(wait_kinds >> (wait->kind & (KIND_COUNT - 1)) & 1)) {
		count(state, COUNT_FILTERED, 1);
	} else {
		ended.lock = lock;
		ended.begin_ns = wait->begin_ns;
		ended.wait_ns = now > wait->begin_ns ? now - wait->begin_ns : 0;
		ended.kind = wait->kind;
		ended.begin_cpu = wait->begin_cpu;
		ended.result = result;
		ended.sampled = wait->sampled;
		ended.kernel_frames = wait->kernel_frames;
		ended.user_frames = wait->user_frames;
		/* The waiter may have moved, and a mutex may have changed its kind. */
		ended.row = find_row(state, cpu, lock, wait->kind & (KIND_COUNT - 1));
		stack_index = index * SLEEP_DEPTH + (depth & (SLEEP_DEPTH - 1));
		record_wait(ctx, state, cpu, &ended,
			    ended.sampled ? bpf_map_lookup_elem(&sleep_stacks, &stack_index) : NULL, false);
	}
	slot->depth = depth;
	if (!depth)
		release_sleeper(slot, index, tid);
	return true;
}

#endif /* SLEEPING_BPF_H */
