/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The current task without a helper's call.  Where a CPU has to guard its returns (SRSO) a call costs a wait some
 * 20 ns; the kernel inlines the helper since 7.0 alone.
 */
#ifndef CURRENT_BPF_H
#define CURRENT_BPF_H

#include "state.bpf.h"
#include "compat.bpf.h"

/* Since 6.2 (a35b9af4ec2c); a move of a register. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

/*
 * A word of the kernel's memory; 0 where there is none.  Read as a number, by a type that begins with one: a pointer
 * could not be compared.
 */
static __always_inline __u64 kernel_word(__u64 address)
{
	const struct timespec64 *word;
	__u64 value = 0;

	if (!bpf_rdonly_cast) {
		bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
		return value;
	}
	word = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct timespec64));
	return word->tv_sec;
}

/* Once on each CPU: whether the collector found the right word.  Until then, and without one, the helper is called. */
static __noinline int adopt_current_word(struct cpu_state *state)
{
	__u64 task = bpf_get_current_task();

	if (state && state->found_word && kernel_word(state->found_word) == task)
		state->current_word = state->found_word;
	return 0;
}

/* Address of its task_struct. */
static __always_inline __u64 current_address(const struct cpu_state *state)
{
	if (!bpf_rdonly_cast || !state->current_word)
		return bpf_get_current_task();
	return kernel_word(state->current_word);
}

/* As bpf_get_current_pid_tgid(). */
static __always_inline __u64 current_ids(const struct cpu_state *state)
{
	__u32 pid = bpf_core_field_offset(struct task_struct, pid);

	/* In one word, as the kernel has them one behind the other. */
	if (!bpf_rdonly_cast || !state->current_word || bpf_core_field_offset(struct task_struct, tgid) != pid + 4)
		return bpf_get_current_pid_tgid();
	return kernel_word(current_address(state) + pid);
}

#endif /* CURRENT_BPF_H */
