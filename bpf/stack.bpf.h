/* SPDX-License-Identifier: GPL-2.0 */
/* The stacks of a wait: walked, or known from a walk before (known.bpf.h). */
#ifndef STACK_BPF_H
#define STACK_BPF_H

#include "state.bpf.h"

/* Bytes or a negative errno to frames or a negative errno. */
static __always_inline __s16 stack_frames(struct cpu_state *state, long bytes)
{
	if (bytes < 0) {
		__sync_fetch_and_add(&state->counters[COUNT_STACK_ERROR], 1);
		return bytes;
	}
	return bytes / sizeof(__u64);
}

/* By way of memory, as a number. */
static __always_inline __u64 stack_address(void *ctx, struct cpu_state *state)
{
	*(volatile __u64 *)&state->scratch = (__u64)ctx;
	return *(volatile __u64 *)&state->scratch;
}

/* These are in known.bpf.h; stack: an address. */
__u32 find_known_stack(__u32 cpu, __u64 stack);
int learn_stack(__u32 cpu, __u32 number, __u64 stack, __u32 count);
int is_known_stack(__u32 cpu, __u32 number, const struct kernel_frames *frames, __u32 count);

/* A stack that is known is walked once in so many times. */
#define KNOWN_WALKED 16

static __always_inline __s16 walk_kernel_stack(void *ctx, struct cpu_state *state, struct wait_stack *stack)
{
	return stack_frames(state, bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0));
}

/* The caller has set stack_busy. */
static __noinline int walk_or_know(void *ctx, struct cpu_state *state, struct wait_stack *stack)
{
	__u32 cpu = bpf_get_smp_processor_id(), found, number;
	struct known_stack *known;
	struct known_stacks *all;
	__u64 address;
	__s16 count;

	if (!ctx || !state || !stack)
		return 0;
	all = bpf_map_lookup_elem(&known_stacks, &cpu);
	if (!all)
		return 0;
	address = stack_address(ctx, state);
	found = find_known_stack(cpu, address);
	number = (found ? found - 1 : state->next_known) & (KNOWN_STACKS - 1);
	known = &all->stacks[number];
	/* Walked again the first time that it is known, and once in a while. */
	if (found && known->uses++ % KNOWN_WALKED) {
		state->counters[COUNT_KNOWN_STACK]++;
		__builtin_memcpy(stack->kernel, &known->frames, sizeof(stack->kernel));
		return known->count;
	}
	count = walk_kernel_stack(ctx, state, stack);
	if (count < 2)
		return count;
	if (!found) {
		__builtin_memcpy(&known->frames, stack->kernel, sizeof(stack->kernel));
		state->next_known += learn_stack(cpu, number, address, count);
	} else if (!is_known_stack(cpu, number, (const struct kernel_frames *)stack->kernel, count)) {
		__sync_fetch_and_add(&state->counters[COUNT_WRONG_STACK], 1);
	}
	return count;
}

/* What interrupts it here may be another program that walks: it walks by itself.  held: as of search_rows(). */
static __always_inline __s16 kernel_stack(void *ctx, struct cpu_state *state, struct wait_stack *stack, bool held)
{
	__s16 count;

	if (held || state->counters[COUNT_WRONG_STACK] || __sync_lock_test_and_set(&state->stack_busy, 1))
		return walk_kernel_stack(ctx, state, stack);
	count = walk_or_know(ctx, state, stack);
	publish(&state->stack_busy, 0);
	return count;
}

#endif /* STACK_BPF_H */
