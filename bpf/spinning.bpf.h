/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spinning waits in flight: a stack per CPU.  A spinning waiter cannot move or
 * be switched out, so the CPU is its key; interrupts nest on top of it.
 *
 * An end that the kernel skipped (recursion_misses) leaves its begin on the
 * stack.  It is dropped and counted as soon as it can be distinguished from a live one:
 * another task spins above it, its lock begins again, the wait below it ends,
 * or the stack is full, which SPIN_DEPTH contexts cannot do.
 */
#ifndef SPINNING_BPF_H
#define SPINNING_BPF_H

#include "record.bpf.h"

/* Drops what cannot be in flight any more below a new begin; the depth that is left. */
static __noinline int live_depth(struct cpu_state *state, __u64 lock)
{
	__u64 task = state ? current_address(state) : 0;
	__u32 depth, live = 0;

	if (!state)
		return 0;
	depth = state->spin_depth;
	if (depth >= SPIN_DEPTH) {
		count(state, COUNT_TOO_DEEP, depth);
		return 0;
	}
	for (__u32 i = 0; i < SPIN_DEPTH - 1; i++) {
		const struct spin_slot *slot = &state->spin[i];

		if (i >= depth || slot->task != task)
			break;
		/* An interrupt may read-lock the rwlock that the task below it waits for; no other lock begins twice. */
		if (slot->lock == lock && slot->kind != KIND_RWLOCK_READ)
			break;
		live = i + 1;
	}
	if (live < depth)
		count(state, COUNT_ORPHANED, depth - live);
	if (live)
		state->counters[COUNT_NESTED]++;
	return live;
}

/* Whether a probe around the whole slow path already records the wait that a tracepoint inside it tells of. */
static __always_inline bool in_slow_path(const struct cpu_state *state, __u64 lock)
{
	const struct spin_slot *top = &state->spin[(state->spin_depth - 1) & (SPIN_DEPTH - 1)];

	return unlikely(state->spin_depth) && top->lock == lock && top->flags & SPIN_SLOW_PATH;
}

/* The tracepoint is above the function that waits. */
#define RESILIENT_FRAMES 6
/* Read at once, and how often: far more than the frames between the tracepoint's arguments and that function. */
#define STACK_WORDS 32
#define STACK_READS 2

/* arm64 signs return addresses in the bits that all addresses of the kernel have set. */
static __always_inline bool in_text(__u64 address, __u64 begin, __u64 size)
{
	return (address | 0xffffull << 48) - begin < size;
}

static __always_inline bool in_resilient_text(__u64 address)
{
	return in_text(address, resilient_text, resilient_text_size);
}

static __always_inline bool in_spin_text(__u64 address)
{
	return in_text(address, spin_text[0], spin_text_size[0]) || in_text(address, spin_text[1], spin_text_size[1]);
}

/* Both are in search.bpf.h, where the verifier walks their loops once; stack: an address. */
int mentions_resilient(__u64 stack);
/* Where the stack has the return address in an ordinary slow path: there it has every caller's, until frames change. */
int find_caller_word(__u64 stack);

/*
 * Whether one word of the stack, on which the tracepoint's arguments lie, tells that an ordinary slow path is the
 * caller.  False: it does not, or it is not known which word.
 */
static __always_inline bool called_by_ordinary(void *ctx, struct cpu_state *state)
{
	if (!state->caller_word)
		return false;
	return in_spin_text(kernel_word(stack_address(ctx, state) + (state->caller_word - 1) * sizeof(__u64)));
}

/*
 * Whether the stack may have a return address in the function.  To look at all words takes a tenth of a walk, and nearly
 * every answer is no.
 */
static __always_inline bool stack_mentions_resilient(void *ctx, struct cpu_state *state)
{
	__u64 stack;

	if (called_by_ordinary(ctx, state))
		return false;
	stack = stack_address(ctx, state);
	for (int i = 0; i < STACK_READS; i++)
		if (mentions_resilient(stack + i * STACK_WORDS * sizeof(__u64)))
			return true;
	if (spin_text_size[0] || spin_text_size[1])
		state->caller_word = find_caller_word(stack);
	return false;
}

static __noinline int called_by_resilient(void *ctx)
{
	__u64 frames[RESILIENT_FRAMES] = {};

	if (!ctx)
		return 0;
	bpf_get_stack(ctx, frames, sizeof(frames), 0);
	for (int i = 0; i < RESILIENT_FRAMES; i++)
		if (in_resilient_text(frames[i]))
			return 1;
	return 0;
}

/*
 * Resilient queued spinlocks (BPF's own locks) pass the tracepoint with the flags
 * of a spinlock: the function that passed it tells, and after that the lock's row.
 */
static __always_inline __u32 spinlock_kind(void *ctx, struct cpu_state *state, __u64 lock)
{
	__u64 key = row_key(lock, KIND_SPINLOCK), resilient_key = row_key(lock, KIND_RQSPINLOCK);
	const struct wait_row *home;

	if (!ctx || !state)
		return KIND_SPINLOCK;
	home = row_at(home_row(state, key));
	if (!home || home->key == key)
		return KIND_SPINLOCK;
	if (home->key == resilient_key)
		return KIND_RQSPINLOCK;
	if (home->key) {
		__u32 found = is_shut_out(home, key) ? ROW_NO_PLACE : search_row(state, lock, KIND_SPINLOCK, false);

		/* Looked for once for a row, never for a lock that gets none. */
		if (found < ROW_NO_PLACE || is_shut_out(home, resilient_key))
			return KIND_SPINLOCK;
		if (search_row(state, lock, KIND_RQSPINLOCK, false) < ROW_NO_PLACE)
			return KIND_RQSPINLOCK;
		if (found == ROW_NO_PLACE)
			return KIND_SPINLOCK;
	}
	return stack_mentions_resilient(ctx, state) && called_by_resilient(ctx) ? KIND_RQSPINLOCK : KIND_SPINLOCK;
}

/*
 * The next slot is reserved before it is filled: another begin program may
 * interrupt this one here, and pushes above it.
 */
static __always_inline void push_spinning(struct cpu_state *state, struct spin_slot *slot, __u32 depth, __u64 lock,
					  __u64 task)
{
	slot->task = task;
	slot->begin_ns = 0;
	slot->lock = lock;
	barrier();
	state->spin_depth = depth + 1;
	barrier();
	/* Again: an interrupt may have used the slot before it was reserved.  begin_ns 0: not a wait yet. */
	slot->begin_ns = 0;
	slot->lock = lock;
}

/* All of it but the time. */
static __always_inline struct spin_slot *start_plain(struct cpu_state *state, __u64 lock, __u32 kind, __u32 row,
						     __u32 flags, __u64 task)
{
	struct spin_slot *slot = &state->spin[0];

	push_spinning(state, slot, 0, lock, task);
	slot->row = row;
	slot->kind = kind;
	slot->flags = flags | plain_flags(state->begin_kinds);
	return slot;
}

/*
 * Of the waits whose row is not at home those that begin_that_spins() would else have taken as plain ones: the first of
 * this CPU for a lock whose home is free, and those for a lock whose row is the next one.  Locks come and go by the
 * thousand, each call of a function costs 12 ns, and its code is cold.  False: it is more.
 */
static __always_inline bool begin_away(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind)
{
	__u64 key = row_key(lock, kind);
	__u32 index = home_row(state, key);
	struct wait_row *row = row_at(index);
	struct spin_slot *slot;

	if (state->spin_depth || !(state->begin_kinds & BEGIN_PLAIN) || !row)
		return false;
	if (row->key)
		goto taken;
	/* It would take a stack. */
	if (!state->sample_mask || state->stack_tokens > STACK_RESERVE)
		return false;
	if (resilient_text && kind == KIND_SPINLOCK && !called_by_ordinary(ctx, state))
		return false;
	if (__sync_val_compare_and_swap(&row->key, 0, key))
		return false;
	begin_row(state, row, lock);
	row->begins = 1;
begin:
	slot = start_plain(state, lock, kind, index, 0, current_address(state));
	slot->begin_ns = state->begun_ns ?: bpf_ktime_get_ns();
	return true;
taken:
	row = next_row(state, index++, key);
	if (!row || !no_sample_due(state, row))
		return false;
	row->begins++;
	goto begin;
}

static __noinline int begin_spinning(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind, __u8 flags)
{
	__u32 cpu = bpf_get_smp_processor_id(), depth, row_index;
	struct spin_slot *slot;
	struct wait_row *row;

	if (!ctx || !state)
		return 0;
	depth = unknown(state->spin_depth ? live_depth(state, lock) : 0, lock) & (SPIN_DEPTH - 1);
	slot = &state->spin[depth];
	row = find_row(state, lock, kind, &row_index, false);
	if (!row)
		return 0;
	push_spinning(state, slot, depth, lock, current_address(state));
	slot->row = row_index;
	slot->kind = kind;
	if (is_other_row(state, row_index))
		flags |= SPIN_OTHER_ROW;
	if (takes_sample(state, row)) {
		__u32 frames = walk_stacks(ctx, state, cpu * SPIN_DEPTH + depth, true, false);

		flags |= SPIN_SAMPLED;
		state->spin_frames[depth].kernel = frames;
		state->spin_frames[depth].user = frames >> 16;
		/* The walk is not in the wait. */
		state->begun_ns = 0;
	}
	slot->flags = flags;
	slot->begin_ns = state->begun_ns ?: clock_now(state);
	return 0;
}

/* The depth of the slot that waits for lock; callers know that the top one does not. */
static __noinline int find_below(struct cpu_state *state, __u64 lock)
{
	if (!state)
		return -1;
	for (__u32 i = 0; i < SPIN_DEPTH; i++) {
		if (i >= state->spin_depth)
			break;
		if (state->spin[i].lock == lock)
			return i;
	}
	return -1;
}

/* What lies above the slot that is popped: an interrupt's, whose end the kernel skipped. */
static __noinline int count_orphans_above(struct cpu_state *state, __u32 depth)
{
	if (state && state->spin_depth > depth + 1)
		count(state, COUNT_ORPHANED, state->spin_depth - depth - 1);
	return 0;
}

/*
 * The end of a plain wait, with the lock held.  False: it is more, or no such wait.  What is rare stands last, as in
 * begin_that_spins().
 */
static __always_inline bool end_plain(void *ctx, struct cpu_state *state, __u32 slow_path)
{
	struct spin_slot *slot = &state->spin[0];
	__u64 wait_ns;
	struct wait_row *row;
	__u32 bucket, more;

	if (slot->flags != (SPIN_PLAIN | slow_path))
		goto rare;
plain:
	/* Above all thresholds if the clock went back, or was not read at begin. */
	wait_ns = bpf_ktime_get_ns() - slot->begin_ns;
	row = row_at(slot->row);
	if (!row || wait_ns >= state->threshold_ns)
		return false;
	if (wait_ns >= SHORT_WAIT_NS)
		goto long_wait;
	bucket = short_bucket(wait_ns);
add:
	add_wait(row, wait_ns, bucket, false);
	add_pending(row, wait_ns, false);
	barrier();
	row->waits++;
	/* Behind the clock, as in begin_that_spins(). */
	if (!slow_path)
		state->ends++;
	if (slot->flags != (SPIN_PLAIN | slow_path))
		goto more;
added:
	/* Popped last: until here an interrupt pushes above the slot, and the kernel skips its end. */
	barrier();
	if (state->spin_depth != 1)
		goto orphans;
	barrier();
	state->spin_depth = 0;
	return true;
rare:
	more = slot->flags ^ (SPIN_PLAIN | slow_path);
	if (more & ~(SPIN_HOLDINGS | SPIN_OTHER_ROW))
		return false;
	if (!(more & SPIN_OTHER_ROW) || (!slow_path && !shares_other_rows))
		goto plain;
	return false;
long_wait:
	bucket = histogram_bucket(wait_ns);
	goto add;
more:
	if (slot->flags & SPIN_OTHER_ROW)
		state->counters[COUNT_TABLE_FULL]++;
	if (slot->flags & SPIN_HOLDINGS)
		record_plain_holding(ctx, state, wait_ns);
	goto added;
orphans:
	count_orphans_above(state, 0);
	barrier();
	state->spin_depth = 0;
	TOLD_APART;
	return true;
}

static __always_inline bool end_any_spinning(void *ctx, struct cpu_state *state, __u64 lock, __s32 result,
					     bool slow_path)
{
	__u32 cpu = bpf_get_smp_processor_id(), depth;
	struct ended_wait wait;
	struct spin_slot *slot;
	struct wait_row *row;
	__u64 now;

	if (!ctx || !state || !state->spin_depth)
		return false;
	depth = (state->spin_depth - 1) & (SPIN_DEPTH - 1);
	if (state->spin[depth].lock != lock) {
		int below = find_below(state, lock);

		if (below < 0)
			return false;
		depth = unknown(below, lock) & (SPIN_DEPTH - 1);
	}
	slot = &state->spin[depth];
	/* The tracepoint's end inside a slow path: the probe around it has the later one. */
	if (!(slot->flags & SPIN_SLOW_PATH) == slow_path)
		return !slow_path;
	if (!slot->begin_ns)
		return false;
	now = clock_now(state);
	row = row_at(slot->row);
	wait.wait_ns = waited(slot->begin_ns, now);
	if (wait.wait_ns >= state->threshold_ns && slot->task != current_address(state)) {
		/* A lost end left the slot; whoever ends the same lock here now did not begin then. */
		count(state, COUNT_ORPHANED, 1);
	} else if (row) {
		wait.lock = lock;
		wait.begin_ns = slot->begin_ns;
		wait.kind = slot->kind;
		wait.cpu = cpu;
		wait.begin_cpu = cpu;
		wait.result = result;
		wait.stack = cpu * SPIN_DEPTH + depth;
		wait.kernel_frames = state->spin_frames[depth].kernel;
		wait.user_frames = state->spin_frames[depth].user;
		wait.spinning = true;
		wait.sampled = slot->flags & SPIN_SAMPLED;
		wait.other_row = slot->flags & SPIN_OTHER_ROW;
		if (wait.other_row) {
			count(state, COUNT_TABLE_FULL, 1);
			record_wait(ctx, state, row, &wait, true, false);
		} else {
			record_wait(ctx, state, row, &wait, false, false);
		}
	}
	/* Popped last: until here an interrupt pushes above the slot and its stack. */
	count_orphans_above(state, depth);
	barrier();
	state->spin_depth = depth;
	return true;
}

/* 1 if the end belongs to a spinning wait in flight. */
static __noinline int end_spinning(void *ctx, struct cpu_state *state, __u64 lock, __s32 result)
{
	return end_any_spinning(ctx, state, lock, result, false);
}

static __noinline int end_slow_path(void *ctx, struct cpu_state *state, __u64 lock)
{
	return end_any_spinning(ctx, state, lock, 0, true);
}

#endif /* SPINNING_BPF_H */
