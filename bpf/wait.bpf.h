/* SPDX-License-Identifier: GPL-2.0 */
/*
 * begin_wait() and end_wait(): what every probe of a lock calls.
 *
 * The rules of this path: no map operation that locks or allocates; only
 * memory that this CPU alone writes, but for the slot of a sleeping wait;
 * the clock once, before slots and rows that may be far away, because its read waits for all loads before it, but
 * after what takes long (a stack), so that this is not in the wait; what can be done at begin is done there,
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

static __always_inline __u32 plain_bit(__u32 kind)
{
	return is_spinning(kind) ? BEGIN_PLAIN : BEGIN_PLAIN_SLEEP;
}

/* What begin_kinds has of nearly every wait: then wanted() and is_plain() need not be asked. */
static __always_inline __u32 plain_bits(__u32 kind)
{
	return 1u << kind | BEGIN_UNFILTERED | plain_bit(kind);
}

/* Whether a wait of this kind may be a plain one: nothing but waits is asked for. */
static __always_inline bool is_plain(const struct cpu_state *state, __u32 kind)
{
	return state->begin_kinds & plain_bit(kind);
}

/* What is not plain.  Apart, as it is long. */
static __noinline int begin_spinning_wait(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind)
{
	if (!ctx || !state)
		return 0;
	kind &= KIND_COUNT - 1;
	if (likely(begin_away(ctx, state, lock, kind)))
		return 0;
	if (in_slow_path(state, lock)) {
		/* Counted by this program alone, which never interrupts itself. */
		state->counters[COUNT_REPEATED]++;
		return 0;
	}
	if (resilient_text && kind == KIND_SPINLOCK)
		kind = unknown(spinlock_kind(ctx, state, lock), lock) & (KIND_COUNT - 1);
	if (kind_recorded(kind))
		begin_spinning(ctx, state, lock, kind, 0);
	else
		count(state, COUNT_FILTERED, 1);
	return 0;
}

/*
 * A wait that spins, from a tracepoint or (SPIN_SLOW_PATH) around the whole slow path.  What nearly every wait is
 * stands first and in a row: nothing but waits is asked for, it is the only one of its CPU, its row is at home and no
 * stack is due.  The compilers lay blocks out as they are written, whatever is likely; and between two waits other work
 * drives out code, too, and what the CPU knew of its jumps.
 *
 * The clock is read before the row is looked at: its read waits for all loads before it, and the row's line is the one
 * that other work drives out of the caches.  It comes while the wait goes on.  Not for a tracepoint inside a slow path
 * that is probed: that has read it.  Only ends take away what interrupts leave, and none of them is skipped here.
 */
static __always_inline void begin_that_spins(void *ctx, __u64 lock, __u32 kind, __u32 flags)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	__u64 key = row_key(lock, kind), now, task;
	struct wait_row *row;
	__u32 index;

	kind &= KIND_COUNT - 1;
	if (!state)
		return;
	if (~state->begin_kinds & plain_bits(kind))
		goto uncommon;
plain:
	index = home_row(state, key);
	row = row_at(index);
	if (!row)
		goto unread;
	if (state->spin_depth)
		goto inside;
	now = bpf_ktime_get_ns();
	if (row->key != key)
		goto not_at_home;
	if (!no_sample_due(state, row))
		goto due;
begin:
	row->begins++;
	if (!bpf_rdonly_cast)
		goto no_cast;
	if (!state->current_word)
		goto ask;
	task = current_address_by_word(state);
start:
	start_plain(state, lock, kind, index, flags, task)->begin_ns = now;
seen:
	/* Behind the clock, which waits for every load before it. */
	if (flags & SPIN_SLOW_PATH)
		state->slow_paths[kind]++;
	else
		state->begins[kind]++;
	return;
due:
	if (!state->stack_tokens)
		goto begin;
	state->begun_ns = now;
	goto not_plain;
ask:
	task = bpf_get_current_task();
	goto start;
no_cast:
	TOLD_APART;
	task = bpf_get_current_task();
	goto start;
not_at_home:
	/* If the table has no place for it: BPF's own lock is one spinlock of many then. */
	state->begun_ns = now;
	if (flags & SPIN_SLOW_PATH || !is_shut_out(row, row_key(lock, KIND_RQSPINLOCK)))
		goto not_plain;
	start_plain(state, lock, kind, other_row(state, kind), SPIN_OTHER_ROW, current_address(state))->begin_ns = now;
	goto seen;
inside:
	if (flags & SPIN_SLOW_PATH || state->spin_depth != 1 || state->spin[0].lock != lock ||
	    !(state->spin[0].flags & SPIN_SLOW_PATH))
		goto unread;
	state->counters[COUNT_REPEATED]++;
	goto seen;
uncommon:
	if (!wanted(ctx, state, lock, kind, !(flags & SPIN_SLOW_PATH)))
		goto filtered_out;
	if (is_plain(state, kind))
		goto plain;
unread:
	state->begun_ns = 0;
not_plain:
	if (!(flags & SPIN_SLOW_PATH)) {
		begin_spinning_wait(ctx, state, lock, unknown(kind, lock));
		goto seen;
	}
	if (!kind_recorded(kind))
		goto filtered_out;
	add_waiter(lock, 1);
	begin_spinning(ctx, state, lock, kind, SPIN_SLOW_PATH);
	goto seen;
filtered_out:
	count(state, COUNT_FILTERED, 1);
	goto seen;
}

static __always_inline void begin_that_sleeps(void *ctx, __u64 lock, __u32 kind)
{
	struct cpu_state *state;

	kind &= KIND_COUNT - 1;
	/* A waiter that sleeps may be preempted here, unlike one that spins. */
	stay_at_tracepoint();
	state = state_of(bpf_get_smp_processor_id());
	if (!state)
		goto leave;
	if (~state->begin_kinds & plain_bits(kind))
		goto uncommon;
plain:
	if (probes_rwsem_writers && kind == KIND_RWSEM_WRITE)
		goto unread;
	if (!begin_plain_sleeping(state, lock, kind, 0))
		goto not_plain;
seen:
	state->begins[kind]++;
leave:
	leave_tracepoint();
	return;
uncommon:
	if (!wanted(ctx, state, lock, kind, false)) {
		count(state, COUNT_FILTERED, 1);
		goto seen;
	}
	if (is_plain(state, kind))
		goto plain;
unread:
	state->begun_ns = 0;
not_plain:
	kind = unknown(kind, lock) & (KIND_COUNT - 1);
	begin_sleeping(ctx, state, lock, kind, false);
	goto seen;
}

static __always_inline void begin_wait(void *ctx, __u64 lock, __u32 kind)
{
	bool spins = is_spinning(kind);

	/* Else the compiler leaves out a mask that the verifier wants to see. */
	barrier_var(kind);
	if (spins)
		begin_that_spins(ctx, lock, kind, 0);
	else
		begin_that_sleeps(ctx, lock, kind);
}

/* What is not plain, or has lost its begin.  now: the clock, if it was read already; else 0. */
static __noinline int end_any_wait(__u64 *ctx, struct cpu_state *state, __u64 now)
{
	__s32 result;
	__u64 lock;

	if (!ctx || !state)
		return 0;
	lock = ctx[0];
	result = ctx[1];
	state->ends++;
	if (state->spin_depth && end_spinning(ctx, state, lock, result))
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
 * ctx: the lock, and the result.  A call of a function costs a wait some 12 ns where returns are guarded: the ends of
 * common waits call none.  The program's own stack stays below 64 bytes: from there on the kernel gives a function one
 * of its own (6.13), in lines that nothing else keeps warm.
 */
static __always_inline void end_wait(__u64 *ctx)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	__u64 now;

	if (!state)
		return;
	if ((__s32)ctx[1])
		goto uncommon;
	if (state->spin_depth != 1)
		goto not_spinning;
	if (state->spin[0].lock != ctx[0])
		goto uncommon;
	if (end_plain(ctx, state, 0))
		return;
	/* Inside a slow path, whose probe reads the clock later. */
	if (!(state->spin[0].flags & SPIN_SLOW_PATH))
		goto uncommon;
	state->ends++;
	return;
not_spinning:
	if (state->spin_depth)
		goto uncommon;
	stay_at_tracepoint();
	if (tracepoints_preemptible()) {
		state = state_of(bpf_get_smp_processor_id());
		if (!state)
			goto leave;
	}
	if (!end_plain_sleeping(state, ctx[0], 0, &now))
		goto not_plain_sleeping;
	state->ends++;
leave:
	leave_tracepoint();
	return;
not_plain_sleeping:
	leave_tracepoint();
	end_any_wait(ctx, state, now);
	return;
uncommon:
	end_any_wait(ctx, state, 0);
}

/* Entry of a function that spins for a lock from its first to its last instruction. */
static __always_inline void enter_slow_path(void *ctx, __u64 lock, __u32 kind)
{
	begin_that_spins(ctx, lock, kind, SPIN_SLOW_PATH);
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

	if (!state)
		return;
	if (!lock)
		lock = slow_path_lock(state);
	if (likely(state->spin_depth == 1 && state->spin[0].lock == lock && end_plain(ctx, state, SPIN_SLOW_PATH)))
		return;
	if (end_slow_path(ctx, state, lock))
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
	if (!state)
		goto leave;
	state->slow_paths[kind & (KIND_COUNT - 1)]++;
	state->begun_ns = 0;
	if (likely(!(~state->begin_kinds & plain_bits(kind))) &&
	    begin_plain_sleeping(state, lock, kind, SLEEP_SLOW_PATH))
		goto leave;
	if (wanted(ctx, state, lock, kind, false))
		begin_sleeping(ctx, state, lock, kind, true);
	else
		count(state, COUNT_FILTERED, 1);
leave:
	leave_cpu();
}

static __always_inline void leave_sleeping_path(void *ctx, __u64 lock, __s32 result)
{
	struct cpu_state *state;
	__u64 now = 0;

	stay_on_cpu();
	state = state_of(bpf_get_smp_processor_id());
	if (state && (result || !end_plain_sleeping(state, lock, SLEEP_SLOW_PATH, &now)))
		end_sleeping_held(ctx, state, lock, result, now);
	leave_cpu();
}

#endif /* WAIT_BPF_H */
