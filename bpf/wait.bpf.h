/* SPDX-License-Identifier: GPL-2.0 */
/*
 * begin_wait() and end_wait(): what every probe of a lock calls.
 *
 * The rules of this path: no map operation that locks or allocates; only
 * memory that this CPU alone writes, but for the slot of a sleeping wait;
 * the time stamp last in begin and first in end, so that lockline's own time is
 * not in the wait; what can be done at begin is done there, because end runs
 * with the lock held.
 *
 * A program never runs twice at once on a CPU (prog->active; raw tracepoints:
 * commit 05b24ff9b2cf), so what only begin, or only end, writes needs no
 * atomics against interrupts.  Since 7.x a tracepoint program can be preempted;
 * sleeping waits, and the rows of unnamed locks, therefore use atomic adds.
 */
#ifndef WAIT_BPF_H
#define WAIT_BPF_H

#include "filter.bpf.h"
#include "lock_filter.bpf.h"
#include "sleeping.bpf.h"
#include "spinning.bpf.h"

static __always_inline struct cpu_state *state_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_states, &cpu);
}

static __always_inline bool is_spinning(__u32 kind)
{
	return kind <= KIND_RWLOCK_WRITE;
}

/*
 * The filters but that by kind and CPU, from the cheapest on.  inner: a tracepoint, which may be inside a slow path that
 * was let in.
 */
static __noinline int let_in(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind, bool inner)
{
	if (!ctx || !state)
		return 0;
	if ((filter_tasks || filter_cgroup) && state->flags & STATE_FILTERED && !wanted_task())
		return 0;
	if (filter_locks && !lock_wanted(ctx, state, lock, kind))
		return 0;
	return !filter_callers || (inner && in_slow_path(state, lock)) || caller_wanted(ctx);
}

/* Without filters the verifier drops what asks them. */
static __always_inline bool wanted(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind, bool inner)
{
	if (unlikely(!(state->begin_kinds >> kind & 1)))
		return false;
	return !filtered || let_in(ctx, state, lock, kind, inner);
}

/* A kind that sleeps; its waiter may be preempted here, unlike one that spins. */
static __always_inline void begin_sleeping_wait(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state;

	stay_on_cpu();
	state = state_of(bpf_get_smp_processor_id());
	if (state) {
		state->begins[kind]++;
		if (wanted(ctx, state, lock, kind, false))
			begin_sleeping(ctx, state, lock, kind, false);
		else
			count(state, COUNT_FILTERED, 1);
	}
	leave_cpu();
}

static __always_inline void begin_wait(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state;

	kind &= KIND_COUNT - 1;
	if (!is_spinning(kind)) {
		begin_sleeping_wait(ctx, lock, kind);
		return;
	}
	state = state_of(bpf_get_smp_processor_id());
	if (!state)
		return;
	state->begins[kind]++;
	if (!wanted(ctx, state, lock, kind, true))
		count(state, COUNT_FILTERED, 1);
	else if (in_slow_path(state, lock))
		/* Counted by this program alone, which never interrupts itself. */
		state->counters[COUNT_REPEATED]++;
	else if (unlikely(!begin_straight(state, lock, kind, 0)))
		begin_spinlock(ctx, state, lock, kind);
}

/* What does not spin.  Apart, as it is long. */
static __noinline int end_sleeping_wait(void *ctx, __u64 lock, __s32 result)
{
	struct cpu_state *state;

	stay_on_cpu();
	state = state_of(bpf_get_smp_processor_id());
	if (state && !end_sleeping(ctx, state, lock, result))
		state->counters[COUNT_UNMATCHED]++;
	leave_cpu();
	return 0;
}

static __always_inline void end_wait(void *ctx, __u64 lock, __s32 result)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	struct spin_slot *slot;
	__u32 depth;
	__u64 now;

	if (!state)
		return;
	state->ends++;
	if (likely(state->spin_depth)) {
		depth = (state->spin_depth - 1) & (SPIN_DEPTH - 1);
		slot = &state->spin[depth];
		/* Inside a slow path, whose probe reads the clock later. */
		if (slot->lock == lock && slot->flags & SPIN_SLOW_PATH)
			return;
		now = clock_now(state);
		if (likely(!result && end_straight(state, slot, depth, lock, 0, now)))
			return;
		if (end_spinning(ctx, state, lock, result, now))
			return;
	}
	end_sleeping_wait(ctx, lock, result);
}

/* Entry of a function that spins for a lock from its first to its last instruction. */
static __always_inline void enter_slow_path(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());

	kind &= KIND_COUNT - 1;
	if (!state)
		return;
	state->slow_paths[kind]++;
	if (!kind_recorded(kind) || !wanted(ctx, state, lock, kind, false)) {
		count(state, COUNT_FILTERED, 1);
	} else {
		add_waiter(lock, 1);
		if (unlikely(!begin_straight(state, lock, kind, SPIN_SLOW_PATH)))
			begin_spinning(ctx, state, lock, kind, SPIN_SLOW_PATH);
	}
}

/* The lock that this CPU waits for in a slow path: a return probe sees no arguments. */
static __noinline __u64 slow_path_lock(struct cpu_state *state)
{
	__u64 lock = 0;

	if (!state)
		return 0;
	for (__u32 i = 0; i < SPIN_DEPTH; i++) {
		if (i >= state->spin_depth)
			break;
		if (state->spin[i].flags & SPIN_SLOW_PATH)
			lock = state->spin[i].lock;
	}
	return lock;
}

/* lock 0: not known. */
static __always_inline void leave_slow_path(void *ctx, __u64 lock)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	__u32 depth;
	__u64 now;

	if (!state)
		return;
	if (!lock)
		lock = slow_path_lock(state);
	now = clock_now(state);
	depth = (state->spin_depth - 1) & (SPIN_DEPTH - 1);
	if (likely(state->spin_depth && end_straight(state, &state->spin[depth], depth, lock, SPIN_SLOW_PATH, now)) ||
	    end_slow_path(ctx, state, lock, now))
		add_waiter(lock, -1);
	else
		count(state, COUNT_UNMATCHED, 1);
}

/*
 * Entry of a function that waits for a sleeping lock.  Its exit matters only to
 * the waits that pass no tracepoint inside it; contention_end comes before it.
 */
static __always_inline void enter_sleeping_path(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state;

	stay_on_cpu();
	state = state_of(bpf_get_smp_processor_id());
	if (state) {
		state->slow_paths[kind & (KIND_COUNT - 1)]++;
		if (wanted(ctx, state, lock, kind, false))
			begin_sleeping(ctx, state, lock, kind, true);
		else
			count(state, COUNT_FILTERED, 1);
	}
	leave_cpu();
}

static __always_inline void leave_sleeping_path(void *ctx, __u64 lock, __s32 result)
{
	struct cpu_state *state;

	stay_on_cpu();
	state = state_of(bpf_get_smp_processor_id());
	if (state)
		end_sleeping(ctx, state, lock, result);
	leave_cpu();
}

#endif /* WAIT_BPF_H */
