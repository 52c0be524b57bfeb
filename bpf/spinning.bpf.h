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

static __always_inline struct wait_stack *spin_stack(__u32 cpu, __u32 depth)
{
	__u32 index = cpu * SPIN_DEPTH + (depth & (SPIN_DEPTH - 1));

	return bpf_map_lookup_elem(&spin_stacks, &index);
}

/* Drops what cannot be in flight any more below a new begin; the depth that is left. */
static __noinline int live_depth(struct cpu_state *state, __u64 lock, __u64 pid_tgid)
{
	__u32 depth, live = 0;

	if (!state)
		return 0;
	depth = state->spin_depth;
	if (depth >= SPIN_DEPTH) {
		count(state, COUNT_TOO_DEEP, depth);
		return 0;
	}
	for (__u32 i = 0; i < SPIN_DEPTH - 1; i++) {
		if (i >= depth || state->spin[i].pid_tgid != pid_tgid || state->spin[i].lock == lock)
			break;
		live = i + 1;
	}
	if (live < depth)
		count(state, COUNT_ORPHANED, depth - live);
	if (live)
		state->counters[COUNT_NESTED]++;
	return live;
}

static __always_inline void begin_spinning(void *ctx, struct cpu_state *state, __u32 cpu, __u64 lock, __u32 kind,
					   __u64 pid_tgid)
{
	__u32 depth = state->spin_depth ? live_depth(state, lock, pid_tgid) : 0;
	struct spin_slot *slot = &state->spin[depth & (SPIN_DEPTH - 1)];
	__u32 row_index = find_row(state, cpu, lock, kind);
	struct wait_row *row = row_at(cpu, row_index);

	slot->lock = lock;
	slot->pid_tgid = pid_tgid;
	slot->row = row_index;
	slot->kind = kind;
	slot->sampled = row && takes_sample(row);
	if (slot->sampled) {
		struct wait_stack *stack = spin_stack(cpu, depth);

		if (stack) {
			slot->kernel_frames = walk_kernel_stack(ctx, state, stack);
			slot->user_frames = user_stacks ? walk_user_stack(ctx, stack) : 0;
		}
	}
	slot->begin_ns = clock_now();
	barrier();
	state->spin_depth = (depth & (SPIN_DEPTH - 1)) + 1;
}

static __always_inline bool end_spinning(void *ctx, struct cpu_state *state, __u32 cpu, __u64 lock, __s32 result,
					 __u64 now)
{
	__u32 depth = state->spin_depth;
	struct ended_wait wait = {};
	struct spin_slot *slot;

	if (!depth)
		return false;
	slot = &state->spin[--depth & (SPIN_DEPTH - 1)];
	for (int i = 1; i < SPIN_DEPTH && slot->lock != lock; i++) {
		if (!depth)
			return false;
		slot = &state->spin[--depth & (SPIN_DEPTH - 1)];
	}
	if (slot->lock != lock)
		return false;
	wait.lock = lock;
	wait.begin_ns = slot->begin_ns;
	wait.wait_ns = now > slot->begin_ns ? now - slot->begin_ns : 0;
	wait.kind = slot->kind;
	wait.row = slot->row;
	wait.begin_cpu = cpu;
	wait.result = result;
	wait.sampled = slot->sampled;
	wait.kernel_frames = slot->kernel_frames;
	wait.user_frames = slot->user_frames;
	record_wait(ctx, state, cpu, &wait, wait.sampled ? spin_stack(cpu, depth) : NULL, true);
	/* Popped last: until here an interrupt pushes above the slot and its stack. */
	if (state->spin_depth > depth + 1)
		count(state, COUNT_ORPHANED, state->spin_depth - depth - 1);
	barrier();
	state->spin_depth = depth;
	return true;
}

#endif /* SPINNING_BPF_H */
