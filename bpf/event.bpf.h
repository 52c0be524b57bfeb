/* SPDX-License-Identifier: GPL-2.0 */
/* Stacks, and the per-CPU ring of wait events: overwriting, read by the collector without a system call. */
#ifndef EVENT_BPF_H
#define EVENT_BPF_H

#include "filter.bpf.h"
#include "stack.bpf.h"
#include "state.bpf.h"

/* A wait that ended, wherever it was kept while in flight. */
struct ended_wait {
	__u64 lock;
	__u64 begin_ns;
	__u64 wait_ns;
	__u32 kind;
	__u32 cpu;
	__u32 begin_cpu;
	__s32 result;
	__u32 stack; /* index in spin_stacks or sleep_stacks */
	__s16 kernel_frames;
	__s16 user_frames;
	bool spinning;
	bool sampled;
	bool other_row;
};

/* 0 if the clock went back. */
static __always_inline __u64 waited(__u64 begin_ns, __u64 now)
{
	return unknown(now > begin_ns ? now - begin_ns : 0, begin_ns);
}

static __always_inline void count(struct cpu_state *state, enum counter counter, __u64 n)
{
	__sync_fetch_and_add(&state->counters[counter], n);
}

/* A task without user memory (a kernel thread, the idle task) has no user stack: that is no error. */
static __always_inline __s16 walk_user_stack(void *ctx, struct wait_stack *stack)
{
	long bytes = bpf_get_stack(ctx, stack->user, sizeof(stack->user), BPF_F_USER_STACK);

	return bytes < 0 ? 0 : bytes / sizeof(__u64);
}

/*
 * Walks the stacks of a wait that begins, before its clock starts.  held: in all 64 bits, as older verifiers forget half
 * a word that is put on the stack; with preemption off they let no function be called that stands for itself.
 */
static __noinline int walk_stacks(void *ctx, struct cpu_state *state, __u32 index, bool spinning, __u64 held)
{
	struct wait_stack *stack =
		spinning ? bpf_map_lookup_elem(&spin_stacks, &index) : bpf_map_lookup_elem(&sleep_stacks, &index);
	__u16 kernel_frames, user_frames;

	if (!ctx || !state || !stack)
		return 0;
	kernel_frames = kernel_stack(ctx, state, stack, spinning ? FROM_SPIN : FROM_SLEEP, held);
	user_frames = user_stacks ? walk_user_stack(ctx, stack) : 0;
	return (__u32)user_frames << 16 | kernel_frames;
}

static __always_inline void write_event(void *ctx, struct cpu_state *state, const struct ended_wait *wait, __u32 weight,
					__u64 weight_ns, bool held)
{
	__u64 position = __sync_fetch_and_add(&state->events, 1);
	__u32 index = wait->cpu * (ring_mask + 1) + (position & ring_mask);
	struct wait_event *event = bpf_map_lookup_elem(&wait_events, &index);
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct wait_stack *stack = NULL;
	__u32 stack_index = wait->stack;

	if (!event)
		return;
	if (wait->sampled)
		stack = wait->spinning ? bpf_map_lookup_elem(&spin_stacks, &stack_index)
				       : bpf_map_lookup_elem(&sleep_stacks, &stack_index);
	/* Exchanges order the record between its two sequence numbers on every CPU. */
	__sync_lock_test_and_set(&event->sequence, 0);
	event->begin_ns = wait->begin_ns;
	event->wait_ns = wait->wait_ns;
	event->lock = wait->lock;
	event->cgroup = current_cgroup_id();
	event->weight = weight;
	event->weight_ns = weight_ns;
	event->tid = pid_tgid;
	event->tgid = pid_tgid >> 32;
	event->result = wait->result;
	event->cpu = wait->cpu;
	event->begin_cpu = wait->begin_cpu;
	event->kind = wait->kind;
	event->flags = (wait->wait_ns >= state->threshold_ns ? EVENT_OUTLIER : EVENT_SAMPLED) |
		       (wait->other_row ? EVENT_OTHER_ROW : 0);
	event->user_frames = 0;
	event->priority = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), prio);
	event->policy = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), policy);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	if (stack) {
		event->kernel_frames = wait->kernel_frames;
		__builtin_memcpy(event->stack.kernel, stack->kernel, sizeof(stack->kernel));
		if (user_stacks) {
			event->user_frames = wait->user_frames;
			__builtin_memcpy(event->stack.user, stack->user, sizeof(stack->user));
		}
	} else {
		/* With the lock held: up to 60 us where it is not known, 6 % of a wait over 1 ms at most. */
		event->flags |= EVENT_STACK_AT_END;
		event->kernel_frames = kernel_stack(ctx, state, &event->stack, FROM_END, held);
		if (user_stacks)
			event->user_frames = walk_user_stack(ctx, &event->stack);
	}
	__sync_lock_test_and_set(&event->sequence, position + 1);
}

#endif /* EVENT_BPF_H */
