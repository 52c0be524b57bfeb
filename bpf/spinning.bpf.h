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
	__u64 task = bpf_get_current_task();
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

static __always_inline bool in_resilient_text(__u64 address)
{
	/* arm64 signs return addresses in the bits that all addresses of the kernel have set. */
	return (address | 0xffffull << 48) - resilient_text < resilient_text_size;
}

static __noinline int mentions_resilient(const void *stack)
{
	__u64 words[STACK_WORDS];

	if (bpf_probe_read_kernel(words, sizeof(words), stack))
		return 1;
	for (int i = 0; i < STACK_WORDS; i++)
		if (in_resilient_text(words[i]))
			return 1;
	return 0;
}

/*
 * Whether the stack, on which the tracepoint's arguments lie, may have a return address in the function.
 * To look at its words takes a tenth of a walk, and nearly every answer is no.
 */
static __always_inline bool stack_mentions_resilient(void *ctx)
{
	for (int i = 0; i < STACK_READS; i++)
		if (mentions_resilient(ctx + i * STACK_WORDS * sizeof(__u64)))
			return true;
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
static __noinline __u32 spinlock_kind(void *ctx, struct cpu_state *state, __u64 lock)
{
	__u32 found;

	if (!ctx || !state || is_at_home(state, lock, KIND_SPINLOCK))
		return KIND_SPINLOCK;
	found = search_row(state, lock, KIND_SPINLOCK);
	if (found < ROW_NO_PLACE)
		return KIND_SPINLOCK;
	if (search_row(state, lock, KIND_RQSPINLOCK) < ROW_NO_PLACE)
		return KIND_RQSPINLOCK;
	/* Once for a row, never for a lock that gets none. */
	if (found == ROW_NO_PLACE || !stack_mentions_resilient(ctx))
		return KIND_SPINLOCK;
	return called_by_resilient(ctx) ? KIND_RQSPINLOCK : KIND_SPINLOCK;
}

/*
 * The next slot is reserved before it is filled: another begin program may
 * interrupt this one here, and pushes above it.
 */
static __always_inline void push_spinning(struct cpu_state *state, struct spin_slot *slot, __u32 depth, __u64 lock)
{
	slot->task = bpf_get_current_task();
	slot->begin_ns = 0;
	slot->lock = lock;
	barrier();
	state->spin_depth = depth + 1;
	barrier();
	/* Again: an interrupt may have used the slot before it was reserved.  begin_ns 0: not a wait yet. */
	slot->begin_ns = 0;
	slot->lock = lock;
}

/* What nearly every wait is: the only one of its CPU, its row at home, no stack due.  False: it is more. */
static __always_inline bool begin_straight(struct cpu_state *state, __u64 lock, __u32 kind, __u8 flags)
{
	__u64 key = row_key(lock, kind);
	__u32 index = home_row(state, key);
	struct wait_row *row = row_at(index);
	struct spin_slot *slot = &state->spin[0];

	if (unlikely(!kind_recorded(kind) || !row || row->key != key || state->spin_depth ||
		     may_take_sample(state, row)))
		return false;
	row->begins++;
	push_spinning(state, slot, 0, lock);
	slot->row = index;
	slot->kind = kind;
	slot->flags = flags;
	slot->begin_ns = clock_now(state);
	return true;
}

static __noinline int begin_spinning(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind, __u8 flags)
{
	__u32 cpu = bpf_get_smp_processor_id(), depth, row_index;
	struct spin_slot *slot;
	struct wait_row *row;

	if (!ctx || !state)
		return 0;
	depth = (state->spin_depth ? live_depth(state, lock) : 0) & (SPIN_DEPTH - 1);
	slot = &state->spin[depth];
	row = find_row(state, lock, kind, &row_index);
	if (!row)
		return 0;
	push_spinning(state, slot, depth, lock);
	slot->row = row_index;
	slot->kind = kind;
	if (is_other_row(state, row_index))
		flags |= SPIN_OTHER_ROW;
	if (takes_sample(state, row)) {
		__u32 frames = walk_stacks(ctx, state, cpu * SPIN_DEPTH + depth, true);

		flags |= SPIN_SAMPLED;
		slot->kernel_frames = frames;
		slot->user_frames = frames >> 16;
	}
	slot->flags = flags;
	slot->begin_ns = clock_now(state);
	return 0;
}

/* The tracepoint of spinlocks, when begin_straight() does not do. */
static __noinline int begin_spinlock(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind)
{
	if (!ctx || !state)
		return 0;
	if (resilient_text && kind == KIND_SPINLOCK)
		kind = spinlock_kind(ctx, state, lock) & (KIND_COUNT - 1);
	if (kind_recorded(kind))
		begin_spinning(ctx, state, lock, kind, 0);
	else
		count(state, COUNT_FILTERED, 1);
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

/* The end of what begin_straight() began, and of all that was no more by then.  With the lock held. */
static __always_inline bool end_straight(struct cpu_state *state, struct spin_slot *slot, __u32 depth, __u64 lock,
					 __u8 flags, __u64 now)
{
	struct wait_row *row;
	__u64 wait_ns;

	if (unlikely(slot->lock != lock || slot->flags != flags || !slot->begin_ns))
		return false;
	row = row_at(slot->row);
	wait_ns = now > slot->begin_ns ? now - slot->begin_ns : 0;
	if (unlikely(!row || wait_ns >= state->threshold_ns))
		return false;
	add_wait(row, wait_ns, false);
	add_pending(row, wait_ns, false);
	barrier();
	row->waits++;
	if (record_holdings && !(state->flags & STATE_SHALLOW))
		record_wait_holding(lock, slot->begin_ns, slot->begin_ns + wait_ns, slot->kind, 0);
	if (record_futexes && !(state->flags & STATE_SHALLOW))
		note_bucket_wait(lock, slot->kind, wait_ns);
	/* Popped last: until here an interrupt pushes above the slot, and the kernel skips its end. */
	barrier();
	if (unlikely(state->spin_depth > depth + 1))
		count(state, COUNT_ORPHANED, state->spin_depth - depth - 1);
	barrier();
	state->spin_depth = depth;
	return true;
}

static __always_inline bool end_any_spinning(void *ctx, struct cpu_state *state, __u64 lock, __s32 result, __u64 now,
					     bool slow_path)
{
	__u32 cpu = bpf_get_smp_processor_id(), depth;
	struct ended_wait wait;
	struct spin_slot *slot;
	struct wait_row *row;

	if (!ctx || !state || !state->spin_depth)
		return false;
	depth = (state->spin_depth - 1) & (SPIN_DEPTH - 1);
	if (state->spin[depth].lock != lock) {
		int below = find_below(state, lock);

		if (below < 0)
			return false;
		depth = below & (SPIN_DEPTH - 1);
	}
	slot = &state->spin[depth];
	/* The tracepoint's end inside a slow path: the probe around it has the later one. */
	if (!(slot->flags & SPIN_SLOW_PATH) == slow_path)
		return !slow_path;
	if (!slot->begin_ns)
		return false;
	row = row_at(slot->row);
	wait.wait_ns = now > slot->begin_ns ? now - slot->begin_ns : 0;
	if (wait.wait_ns >= state->threshold_ns && slot->task != bpf_get_current_task()) {
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
		wait.kernel_frames = slot->kernel_frames;
		wait.user_frames = slot->user_frames;
		wait.spinning = true;
		wait.sampled = slot->flags & SPIN_SAMPLED;
		wait.other_row = slot->flags & SPIN_OTHER_ROW;
		if (wait.other_row) {
			count(state, COUNT_TABLE_FULL, 1);
			record_wait(ctx, state, row, &wait, true);
		} else {
			record_wait(ctx, state, row, &wait, false);
		}
	}
	/* Popped last: until here an interrupt pushes above the slot and its stack. */
	if (state->spin_depth > depth + 1)
		count(state, COUNT_ORPHANED, state->spin_depth - depth - 1);
	barrier();
	state->spin_depth = depth;
	return true;
}

/* 1 if the end belongs to a spinning wait in flight. */
static __noinline int end_spinning(void *ctx, struct cpu_state *state, __u64 lock, __s32 result, __u64 now)
{
	return end_any_spinning(ctx, state, lock, result, now, false);
}

static __noinline int end_slow_path(void *ctx, struct cpu_state *state, __u64 lock, __u64 now)
{
	return end_any_spinning(ctx, state, lock, 0, now, true);
}

#endif /* SPINNING_BPF_H */
