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
	if ((filter_tasks || filter_cgroup) && state->flags & STATE_FILTERED && !wanted_ids(current_ids(state)))
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

/* Whether begin_plain() and the like may take the wait. */
static __always_inline bool is_plain(const struct cpu_state *state, __u32 kind)
{
	/* The begin of a wait that sleeps looks for the lock's owner, if that is recorded. */
	const __u32 needed = BEGIN_PLAIN | (is_spinning(kind) ? 0 : END_PLAIN) | 1u << kind;

	return (state->begin_kinds & needed) == needed;
}

/* What is not plain.  Apart, as it is long. */
static __noinline int begin_sleeping_wait(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind)
{
	if (!ctx || !state)
		return 0;
	kind &= KIND_COUNT - 1;
	if (wanted(ctx, state, lock, kind, false))
		begin_sleeping(ctx, state, lock, kind, false);
	else
		count(state, COUNT_FILTERED, 1);
	return 0;
}

static __noinline int begin_spinning_wait(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind)
{
	if (!ctx || !state)
		return 0;
	kind &= KIND_COUNT - 1;
	if (!state->spin_depth && is_plain(state, kind) && begin_plain_without_row(state, lock, kind))
		return 0;
	if (!wanted(ctx, state, lock, kind, true))
		count(state, COUNT_FILTERED, 1);
	else if (in_slow_path(state, lock))
		/* Counted by this program alone, which never interrupts itself. */
		state->counters[COUNT_REPEATED]++;
	else
		begin_spinlock(ctx, state, lock, kind);
	return 0;
}

static __always_inline void begin_wait(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state;

	kind &= KIND_COUNT - 1;
	/* A waiter that sleeps may be preempted here, unlike one that spins. */
	if (!is_spinning(kind))
		stay_at_tracepoint();
	state = state_of(bpf_get_smp_processor_id());
	if (state) {
		state->begins[kind]++;
		if (!is_spinning(kind)) {
			if (unlikely(!is_plain(state, kind) || !begin_plain_sleeping(state, lock, kind)))
				begin_sleeping_wait(ctx, state, lock, kind);
		} else if (unlikely(state->spin_depth || !is_plain(state, kind) ||
				    !begin_plain(state, lock, kind, 0))) {
			begin_spinning_wait(ctx, state, lock, kind);
		}
	}
	if (!is_spinning(kind))
		leave_tracepoint();
}

/* What does not spin, is not plain, or has lost its begin. */
static __noinline int end_any_wait(void *ctx, struct cpu_state *state, __u64 lock, __s32 result, __u64 now)
{
	if (!ctx || !state)
		return 0;
	if (state->spin_depth && end_spinning(ctx, state, lock, result, now))
		return 0;
	stay_at_tracepoint();
	state = state_of(bpf_get_smp_processor_id());
	if (state && !end_sleeping(ctx, state, lock, result, now))
		state->counters[COUNT_UNMATCHED]++;
	leave_tracepoint();
	return 0;
}

/*
 * Apart, so that the program's own stack stays below 64 bytes: from there on the kernel gives a function one of its own
 * (6.13), in lines that nothing else keeps warm.
 */
static __noinline int end_sleeping_wait(void *ctx, struct cpu_state *state, __u64 lock)
{
	bool done;
	__u64 now = 0;

	if (!ctx || !state)
		return 0;
	stay_at_tracepoint();
	state = state_of(bpf_get_smp_processor_id());
	done = state && end_plain_sleeping(state, lock, &now);
	leave_tracepoint();
	if (unlikely(!done))
		end_any_wait(ctx, state, lock, 0, now);
	return 0;
}

static __always_inline void end_wait(void *ctx, __u64 lock, __s32 result)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	__u64 now = 0;

	if (!state)
		return;
	state->ends++;
	if (likely(state->spin_depth == 1 && state->spin[0].lock == lock)) {
		/* Inside a slow path, whose probe reads the clock later. */
		if (unlikely(state->spin[0].flags & SPIN_SLOW_PATH))
			return;
		if (likely(!result && end_plain(state, lock, 0, &now)))
			return;
	} else if (!state->spin_depth && !result) {
		end_sleeping_wait(ctx, state, lock);
		return;
	}
	end_any_wait(ctx, state, lock, result, now);
}

/* Entry of a function that spins for a lock from its first to its last instruction. */
static __always_inline void enter_slow_path(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());

	kind &= KIND_COUNT - 1;
	if (!state)
		return;
	state->slow_paths[kind]++;
	if (likely(!state->spin_depth && is_plain(state, kind) && begin_plain(state, lock, kind, SPIN_SLOW_PATH)))
		return;
	if (!kind_recorded(kind) || !wanted(ctx, state, lock, kind, false)) {
		count(state, COUNT_FILTERED, 1);
	} else {
		add_waiter(lock, 1);
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
	__u64 now = 0;

	if (!state)
		return;
	if (!lock)
		lock = slow_path_lock(state);
	if (likely(state->spin_depth == 1 && state->spin[0].lock == lock &&
		   end_plain(state, lock, SPIN_SLOW_PATH, &now)))
		return;
	if (end_slow_path(ctx, state, lock, now))
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
		end_sleeping(ctx, state, lock, result, 0);
	leave_cpu();
}

#endif /* WAIT_BPF_H */
