/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spinning waits in flight: a stack per CPU.  A spinning waiter cannot move or
 * be switched out, so the CPU is its key; interrupts nest on top of it.
 *
 * An end that the kernel skipped (recursion_misses) leaves its begin on the
 * stack.  It is dropped and counted as soon as it can be told from a live one:
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

	return state->spin_depth && top->lock == lock && top->slow_path;
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

static __always_inline void begin_spinning(void *ctx, struct cpu_state *state, __u32 cpu, __u64 lock, __u32 kind,
					   bool slow_path)
{
	__u32 depth = (state->spin_depth ? live_depth(state, lock) : 0) & (SPIN_DEPTH - 1);
	struct spin_slot *slot = &state->spin[depth];
	__u32 row_index;
	struct wait_row *row = find_row(state, lock, kind, &row_index);

	if (!row)
		return;
	/*
	 * Reserved before it is filled: another begin program may interrupt this
	 * one here, and pushes above it.
	 */
	slot->task = bpf_get_current_task();
	slot->begin_ns = 0;
	slot->lock = lock;
	barrier();
	state->spin_depth = depth + 1;
	barrier();
	/* Again: an interrupt may have used the slot before it was reserved.  begin_ns 0: not a wait yet. */
	slot->begin_ns = 0;
	slot->lock = lock;
	slot->slow_path = slow_path;
	slot->row = row_index;
	slot->kind = kind;
	slot->sampled = takes_sample(state, row);
	if (slot->sampled) {
		__u32 frames = walk_stacks(ctx, state, cpu * SPIN_DEPTH + depth, true);

		slot->kernel_frames = frames;
		slot->user_frames = frames >> 16;
	}
	slot->begin_ns = clock_now(state);
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

static __always_inline bool end_spinning(void *ctx, struct cpu_state *state, __u32 cpu, __u64 lock, __s32 result,
					 __u64 now, bool slow_path)
{
	struct ended_wait wait;
	struct spin_slot *slot;
	struct wait_row *row;
	__u32 depth;

	if (!state->spin_depth)
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
	if (slot->slow_path != slow_path)
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
		wait.sampled = slot->sampled;
		wait.other_row = is_other_row(state, slot->row);
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

#endif /* SPINNING_BPF_H */
