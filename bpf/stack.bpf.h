/* SPDX-License-Identifier: GPL-2.0 */
/* The stacks of a wait: walked, or known from walks before (known.bpf.h). */
#ifndef STACK_BPF_H
#define STACK_BPF_H

#include "current.bpf.h"

/* Bytes or a negative errno to frames or a negative errno. */
static __always_inline __s16 stack_frames(struct cpu_state *state, long bytes)
{
	if (bytes < 0) {
		__sync_fetch_and_add(&state->counters[COUNT_STACK_ERROR], 1);
		return bytes;
	}
	return bytes / sizeof(__u64);
}

/* By way of memory, as a number.  Twice: between the two an interrupt's program may put its own there.  0: it has. */
static __always_inline __u64 stack_address(void *ctx, struct cpu_state *state)
{
	volatile __u64 *scratch = &state->scratch;
	__u64 first;

	*scratch = (__u64)ctx;
	first = *scratch;
	*scratch = (__u64)ctx;
	return *scratch == first ? first : 0;
}

/* These are in known.bpf.h; stack: an address. */
__u32 learn_stack(struct kernel_frames *walked, __u64 stack, __u32 count);
__u32 follow_stack(struct cpu_state *state, struct kernel_frames *found, __u64 stack, __u32 most, __u64 *sum);
__u64 sum_of_walk(const struct kernel_frames *walked, __u32 own, __u32 count);

/*
 * An interrupt has a stack of its own, which need not be aligned: to read past its end takes 0.5 us a word.  Nor does
 * that stack tell the callers of what was interrupted.
 */
static __always_inline bool on_task_stack(const struct cpu_state *state, __u64 stack)
{
	return stack - TASK_WORD(current_address(state), stack) < STACK_ALIGNED;
}

/* A stack that is known is walked once in so many times. */
#define KNOWN_WALKED 16

static __always_inline __s16 walk_kernel_stack(void *ctx, struct cpu_state *state, struct wait_stack *stack)
{
	return stack_frames(state, bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0));
}

/* Frames; or a negative errno.  Those of a stack that was known begin behind the program's own. */
static __noinline int walk_or_know(void *ctx, struct cpu_state *state, struct wait_stack *stack, __u32 from)
{
	struct kernel_frames *frames = (struct kernel_frames *)stack;
	__u32 none = 0;
	int known = 0, count, own;
	struct stack_steps *steps = bpf_map_lookup_elem(&stack_steps, &none);
	__u64 address, sum = 0;

	if (!ctx || !state || !stack)
		return 0;
	address = stack_address(ctx, state);
	if (!steps || steps->wrong || !on_task_stack(state, address))
		return walk_kernel_stack(ctx, state, stack);
	from &= STACK_FROM - 1;
	own = state->own_frames[from];
	/* As many as a walk has behind its own. */
	if (own > 0 && own < STACK_FRAMES)
		known = follow_stack(state, frames, address, STACK_FRAMES - own, &sum);
	if (known && ++state->known_stacks % KNOWN_WALKED) {
		__sync_fetch_and_add(&state->counters[COUNT_KNOWN_STACK], 1);
		return known;
	}
	count = walk_kernel_stack(ctx, state, stack);
	if (count < 2)
		return count;
	own = learn_stack(frames, address, count);
	/* A stale word may have been taken for the first of the others. */
	if (known && count == known + state->own_frames[from])
		own = state->own_frames[from];
	/* Where it is cut depends on the program's own frames. */
	if (known && (count < STACK_FRAMES || own == state->own_frames[from]) &&
	    (count != known + own || sum != sum_of_walk(frames, own, count))) {
		steps->wrong = 1;
		__sync_fetch_and_add(&state->counters[COUNT_WRONG_STACK], 1);
	}
	state->own_frames[from] = own;
	return count;
}

/* held: as of search_rows(). */
static __always_inline __s16 kernel_stack(void *ctx, struct cpu_state *state, struct wait_stack *stack,
					  enum stack_from from, bool held)
{
	return held ? walk_kernel_stack(ctx, state, stack) : walk_or_know(ctx, state, stack, from);
}

#endif /* STACK_BPF_H */
