/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who lets go of a lock that others wait for (record --holders).
 *
 * Every unlock comes here, so that nearly all must leave at once: the lock word
 * is in this CPU's cache, and its pending and tail bits, or a flag in the
 * owner field, tell whether anyone waits.  The lock is still held.
 */
#ifndef RELEASE_BPF_H
#define RELEASE_BPF_H

#include "wait.bpf.h"

/* Of a queued spinlock's word the locked byte; above it stand the pending byte and the tail of the queue. */
#define LOCKED_MASK 0xff
static __always_inline bool has_waiters(__u64 lock, __u32 word)
{
	__u32 index = lock_hash(lock, WAITER_COUNTS);
	struct waiter_count *count;

	if (!count_waiters)
		return word & ~LOCKED_MASK;
	count = bpf_map_lookup_elem(&waiter_counts, &index);
	return count && count->waiters;
}

/* 1 + slot of the stack taken, or 0. */
static __noinline int release_stack(void *ctx, struct release_state *state, __u32 cpu)
{
	__u32 slot, index;
	struct wait_stack *stack;

	if (!ctx || !state || !state->stack_tokens)
		return 0;
	state->stack_tokens--;
	slot = state->stacks++ & (RELEASE_STACKS - 1);
	index = cpu * RELEASE_STACKS + slot;
	stack = bpf_map_lookup_elem(&release_stacks, &index);
	if (!stack)
		return 0;
	__builtin_memset(stack->kernel, 0, sizeof(stack->kernel));
	bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0);
	return slot + 1;
}

static __noinline int record_release(void *ctx, __u64 lock, __u32 kind)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct release_state *state = release_state_of(cpu);
	struct cpu_state *waits = state_of(cpu);
	__u64 pid_tgid = bpf_get_current_pid_tgid(), position;
	struct holding_record *holding;
	__u16 stack;

	if (!ctx || !state || !waits || !waits->begin_kinds || waits->flags & STATE_SHALLOW || !lock_known_wanted(lock))
		return 0;
	stack = release_stack(ctx, state, cpu);
	holding = begin_holding(state, cpu, &position);
	if (!holding)
		return 0;
	holding->lock = lock;
	holding->begin_ns = 0;
	holding->tid = pid_tgid;
	holding->tgid = pid_tgid >> 32;
	holding->owner_tid = 0;
	holding->kind = kind;
	holding->flags = HOLDING_RELEASE;
	holding->stack = stack;
	bpf_get_current_comm(holding->comm, sizeof(holding->comm));
	holding->time_ns = clock_now(waits);
	end_holding(ctx, holding, position);
	return 0;
}

static __always_inline bool in_focus(__u64 lock)
{
	__u32 slot = focus_slot(lock);
	__u64 *focused = bpf_map_lookup_elem(&focus, &slot);

	return focused && *focused == lock;
}

static __noinline int begin_hold(__u64 lock)
{
	__u32 cpu = bpf_get_smp_processor_id(), depth;
	struct release_state *state = release_state_of(cpu);
	struct cpu_state *waits = state_of(cpu);

	if (!state || !waits || waits->flags & STATE_SHALLOW || !in_focus(lock))
		return 0;
	/* A release that was not seen leaves its slot: what lies above a full stack is given up with it. */
	if (state->hold_depth >= HOLD_DEPTH) {
		state->holds_lost += state->hold_depth;
		state->hold_depth = 0;
	}
	depth = state->hold_depth & (HOLD_DEPTH - 1);
	state->holds[depth].lock = lock;
	state->hold_depth = depth + 1;
	barrier();
	state->holds[depth].begin_ns = clock_now(waits);
	return 0;
}

static __noinline int end_hold(__u64 lock)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct release_state *state = release_state_of(cpu);
	struct cpu_state *waits = state_of(cpu);
	__u64 now, held;
	struct hold_row *row;

	if (!state || !waits || !in_focus(lock))
		return 0;
	now = clock_now(waits);
	for (int i = HOLD_DEPTH - 1; i >= 0; i--) {
		if ((__u32)i >= state->hold_depth || state->holds[i].lock != lock)
			continue;
		/* The clock may step back: CPUs out of step, or jiffies that wrap. */
		held = now > state->holds[i].begin_ns ? now - state->holds[i].begin_ns : 0;
		state->holds_lost += state->hold_depth - i - 1;
		state->hold_depth = i;
		index = cpu * FOCUS_LOCKS + focus_slot(lock);
		row = bpf_map_lookup_elem(&hold_rows, &index);
		if (!row)
			return 0;
		row->hold_ns += held;
		if (held > row->max_ns)
			row->max_ns = held;
		row->histogram[histogram_bucket(held) & (HISTOGRAM_BUCKETS - 1)]++;
		barrier();
		row->holds++;
		return 0;
	}
	return 0;
}

static __always_inline void spin_unlocks(void *ctx, __u64 lock, __u32 word, __u32 kind)
{
	if (measure_holds && kind == KIND_SPINLOCK)
		end_hold(lock);
	if (has_waiters(lock, word))
		record_release(ctx, lock, kind);
}

#endif /* RELEASE_BPF_H */
