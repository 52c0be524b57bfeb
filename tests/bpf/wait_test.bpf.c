// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that all probes call, as programs that user space can run with
 * made-up locks (BPF_PROG_TEST_RUN).  Nothing here is ever attached.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* The time is what user space says, so that waits are of exact lengths. */
__u64 clock_ns;

#define bpf_ktime_get_ns() (clock_ns)
#include "known.bpf.h"
#include "release.bpf.h"
#include "search.bpf.h"
#include "context.bpf.h"
#include "memory.bpf.h"

SEC("raw_tp")
int run_begin(__u64 *context)
{
	begin_wait(context, context[0], context[1]);
	return 0;
}

/* Looked at, never run. */
SEC("raw_tp")
int begin_mutex(__u64 *context)
{
	begin_wait(context, context[0], KIND_MUTEX);
	return 0;
}

SEC("raw_tp")
int run_end(__u64 *context)
{
	end_wait(context);
	return 0;
}

SEC("raw_tp")
int run_enter(__u64 *context)
{
	enter_slow_path(context, context[0], context[1]);
	return 0;
}

SEC("raw_tp")
int run_leave(__u64 *context)
{
	leave_slow_path(context, context[0]);
	return 0;
}

SEC("raw_tp")
int run_enter_sleeping(__u64 *context)
{
	enter_sleeping_path(context, context[0], context[1]);
	return 0;
}

SEC("raw_tp")
int run_leave_sleeping(__u64 *context)
{
	leave_sleeping_path(context, context[0], context[1]);
	return 0;
}

/* An unlock of a spinlock with this word, and what a lock's probe calls once it is held. */
SEC("raw_tp")
int run_unlock(__u64 *context)
{
	spin_unlocks(context, context[0], context[1], KIND_SPINLOCK);
	return 0;
}

SEC("raw_tp")
int run_locked(__u64 *context)
{
	begin_hold(context[0]);
	return 0;
}

/* What current does to itself: the other task is current too, and the name its comm. */
SEC("raw_tp")
int run_context(__u64 *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	record_context(context[0], context[1], context[2] ? task : NULL, NULL);
	return 0;
}

/* As long as that of a kernel for 8,192 CPUs. */
__u64 ipi_mask[MOST_CPUS / 64];

/* 0: no mask; 1: one that cannot be read; 2: current's comm for a mask; 3: ipi_mask. */
SEC("raw_tp")
int run_ipis(__u64 *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (context[0] == 3)
		record_ipis(ipi_mask);
	else
		record_ipis(context[0] < 2 ? (void *)context[0] : (void *)task + bpf_core_field_offset(task->comm));
	return 0;
}

/* A memory sample that the PMU would have given. */
SEC("raw_tp")
int run_memory(__u64 *context)
{
	struct memory_sample sample = {
		.address = context[0],
		.ip = context[1],
		.data_src = context[2],
		.physical = context[3],
		.weight = context[4],
		.flags = context[5],
	};

	take_memory_sample(&sample);
	return 0;
}

/* Room for a made-up stack as large and aligned as the kernel's; and its end, in words, as run_place_stack() finds it. */
__u64 stack_words[4096];
__u32 stack_end_word;
struct kernel_frames walked_frames;
struct kernel_frames found_frames;
__u64 found_sum;

static __always_inline __u64 stack_words_at(void)
{
	__u64 *words = stack_words;

	barrier_var(words);
	return stack_address(words, bpf_map_lookup_elem(&cpu_states, &(__u32){0}));
}

SEC("raw_tp")
int run_place_stack(__u64 *context)
{
	__u64 words = stack_words_at();

	stack_end_word = (stack_end(words + STACK_ALIGNED - 1) - words) / sizeof(__u64);
	return 0;
}

/* context[0]: words from a program's arguments to the end of the stack */
static __always_inline __u64 arguments_at(const __u64 *context)
{
	return stack_words_at() + (stack_end_word - context[0]) * sizeof(__u64);
}

SEC("raw_tp")
int run_learn_stack(__u64 *context)
{
	return learn_stack(&walked_frames, arguments_at(context), context[1]);
}

SEC("raw_tp")
int run_follow_stack(__u64 *context)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());

	return state ? follow_stack(state, &found_frames, arguments_at(context), context[1], &found_sum) : 0;
}

/* Of an address on the stack of the task that runs this, one that much higher, and one elsewhere: a bit each. */
SEC("raw_tp")
int run_on_task_stack(__u64 *context)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	__u64 here = 0, stack;

	if (!state)
		return 0;
	stack = stack_address(&here, state);
	return on_task_stack(state, stack) | on_task_stack(state, stack + context[0]) << 1 |
	       on_task_stack(state, stack_words_at()) << 2;
}

SEC("raw_tp")
int run_sum_of_walk(__u64 *context)
{
	return sum_of_walk(&walked_frames, context[0], context[1]) == found_sum;
}

SEC("raw_tp")
int run_bucket(__u64 *context)
{
	return histogram_bucket(context[0]);
}

char LICENSE[] SEC("license")
= "GPL";
