/* SPDX-License-Identifier: GPL-2.0 */
/*
 * begin_wait() and end_wait(): what every probe of a lock calls.
 *
 * The rules of this path: no map operation that locks or allocates; only
 * memory that this CPU alone writes, but for the slot of a sleeping wait;
 * the clock before slots and rows that may be far away, because its read waits for all loads before it, but after
 * what takes long (a new row, a stack), so that this is not in the wait; what can be done at begin is done there,
 * because end runs with the lock held.
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
	if (!wanted_ids(current_ids(state)))
		return 0;
	if (filter_locks && !lock_wanted(ctx, state, lock, kind))
		return 0;
	return !filter_callers || (inner && in_slow_path(state, lock)) || caller_wanted(ctx);
}

/* The verifier drops what is not asked for.  By task alone, as most are, a look at two words tells. */
static __always_inline bool wanted(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind, bool inner)
{
	__u32 kinds = state->begin_kinds;

	if (unlikely(!(kinds >> kind & 1)))
		return false;
	if (likely(kinds & BEGIN_UNFILTERED) || !filtered)
		return true;
	if (filter_cgroup || filter_locks || filter_callers)
		return let_in(ctx, state, lock, kind, inner);
	return wanted_ids(current_ids(state));
}

/* Whether begin_plain() and the like may take the wait. */
static __always_inline bool is_plain(const struct cpu_state *state, __u32 kind)
{
	return state->begin_kinds & (is_spinning(kind) ? BEGIN_PLAIN : BEGIN_PLAIN_SLEEP);
}

/* What is not plain.  Apart, as it is long. */
static __noinline int begin_spinning_wait(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind)
{
	if (!ctx || !state)
		return 0;
	kind &= KIND_COUNT - 1;
	if (likely(begin_first(ctx, state, lock, kind)))
		return 0;
	if (in_slow_path(state, lock)) {
		/* Counted by this program alone, which never interrupts itself. */
		state->counters[COUNT_REPEATED]++;
		return 0;
	}
	if (resilient_text && kind == KIND_SPINLOCK)
		kind = spinlock_kind(ctx, state, lock) & (KIND_COUNT - 1);
	if (kind_recorded(kind))
		begin_spinning(ctx, state, lock, kind, 0);
	else
		count(state, COUNT_FILTERED, 1);
	return 0;
}

static __always_inline void begin_that_spins(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());

	kind &= KIND_COUNT - 1;
	if (!state)
		return;
	if (unlikely(!wanted(ctx, state, lock, kind, true)))
		count(state, COUNT_FILTERED, 1);
	else if (unlikely(state->spin_depth || !is_plain(state, kind) || !begin_plain(state, lock, kind, 0)))
		begin_spinning_wait(ctx, state, lock, kind);
	/* Behind the clock, which waits for every load before it. */
	state->begins[kind]++;
}

static __always_inline void begin_that_sleeps(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state;

	kind &= KIND_COUNT - 1;
	/* A waiter that sleeps may be preempted here, unlike one that spins. */
	stay_at_tracepoint();
	state = state_of(bpf_get_smp_processor_id());
	if (state) {
		if (unlikely(!wanted(ctx, state, lock, kind, false)))
			count(state, COUNT_FILTERED, 1);
		else if (unlikely(!is_plain(state, kind) || !begin_plain_sleeping(state, lock, kind)))
			begin_sleeping(ctx, state, lock, kind, false);
		state->begins[kind]++;
	}
	leave_tracepoint();
}

static __always_inline void begin_wait(void *ctx, __u64 lock, __u32 kind)
{
	bool spins = is_spinning(kind);

	/* Else the compiler leaves out a mask that the verifier wants to see. */
	barrier_var(kind);
	if (spins)
		begin_that_spins(ctx, lock, kind);
	else
		begin_that_sleeps(ctx, lock, kind);
}

/* What is not plain, or has lost its begin. */
static __noinline int end_any_wait(void *ctx, struct cpu_state *state, __u64 lock, __s32 result, __u64 now)
{
	if (!ctx || !state)
		return 0;
	if (state->spin_depth && end_spinning(ctx, state, lock, result, now))
		return 0;
	stay_at_tracepoint();
	state = state_of(bpf_get_smp_processor_id());
	if (state && !end_sleeping(ctx, state, lock, result, now)) {
		state->counters[COUNT_UNMATCHED]++;
		/* Of a CPU whose waits are all filtered out nothing else does. */
		if (!state->current_word)
			adopt_current_word(state);
	}
	leave_tracepoint();
	return 0;
}

/*
 * A call of a function costs a wait some 12 ns where returns are guarded: the ends of common waits call none.  The
 * program's own stack stays below 64 bytes: from there on the kernel gives a function one of its own (6.13), in lines
 * that nothing else keeps warm.
 */
static __always_inline void end_wait(void *ctx, __u64 lock, __s32 result)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	__u64 now = 0;

	if (!state)
		return;
	state->ends++;
	if (unlikely(result)) {
		end_any_wait(ctx, state, lock, result, 0);
		return;
	}
	if (likely(state->spin_depth == 1 && state->spin[0].lock == lock)) {
		/* Inside a slow path, whose probe reads the clock later. */
		if (unlikely(state->spin[0].flags & SPIN_SLOW_PATH))
			return;
		if (likely(end_plain(ctx, state, lock, 0, &now)))
			return;
	} else if (!state->spin_depth) {
		stay_at_tracepoint();
		if (tracepoints_preemptible())
			state = state_of(bpf_get_smp_processor_id());
		if (likely(!state || end_plain_sleeping(state, lock, &now))) {
			/* Else the compiler leaves once for both, and keeps which it is. */
			barrier();
			leave_tracepoint();
			return;
		}
		leave_tracepoint();
	}
	end_any_wait(ctx, state, lock, 0, now);
}

/* Entry of a function that spins for a lock from its first to its last instruction. */
static __always_inline void enter_slow_path(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());

	kind &= KIND_COUNT - 1;
	if (!state)
		return;
	if (unlikely(!wanted(ctx, state, lock, kind, false) ||
		     (!(state->begin_kinds & BEGIN_PLAIN) && !kind_recorded(kind)))) {
		count(state, COUNT_FILTERED, 1);
	} else if (unlikely(state->spin_depth || !is_plain(state, kind) ||
			    !begin_plain(state, lock, kind, SPIN_SLOW_PATH))) {
		add_waiter(lock, 1);
		begin_spinning(ctx, state, lock, kind, SPIN_SLOW_PATH);
	}
	state->slow_paths[kind]++;
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
		   end_plain(ctx, state, lock, SPIN_SLOW_PATH, &now)))
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
