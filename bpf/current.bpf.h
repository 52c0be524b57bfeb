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
 * Where bpf_rdonly_cast() is.  The first member, without a relocation, which would take four instructions more.
 */
static __always_inline __u64 word_by_cast(__u64 address)
{
	return *(const __u64 *)bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct timespec64));
}

/*
 * A word of the kernel's memory; 0 where there is none.  Read as a number, by a type that begins with one: a pointer
 * could not be compared.
 */
static __always_inline __u64 kernel_word(__u64 address)
{
	__u64 value = 0;

	if (bpf_rdonly_cast)
		return word_by_cast(address);
	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

#define TASK_WORD(task, member) kernel_word((task) + bpf_core_field_offset(struct task_struct, member))

/* Once on each CPU: whether the collector found the right word.  Until then, and without one, the helper is called. */
static __noinline int adopt_current_word(struct cpu_state *state)
{
	__u64 task = bpf_get_current_task();

	/* Both ids in one word, as the kernel has them one behind the other. */
	if (!bpf_rdonly_cast ||
	    bpf_core_field_offset(struct task_struct, tgid) != bpf_core_field_offset(struct task_struct, pid) + 4)
		return 0;
	if (state && state->found_word && word_by_cast(state->found_word) == task)
		state->current_word = state->found_word;
	return 0;
}

/* Whether current_word may be read. */
static __always_inline bool knows_current(const struct cpu_state *state)
{
	return bpf_rdonly_cast && state->current_word;
}

/* The two that follow are for those who have asked. */
static __always_inline __u64 current_address_by_word(const struct cpu_state *state)
{
	return word_by_cast(state->current_word);
}

static __always_inline __u64 current_ids_by_word(const struct cpu_state *state)
{
	return word_by_cast(current_address_by_word(state) + bpf_core_field_offset(struct task_struct, pid));
}

/* Address of its task_struct. */
static __always_inline __u64 current_address(const struct cpu_state *state)
{
	return knows_current(state) ? current_address_by_word(state) : bpf_get_current_task();
}

/* As bpf_get_current_pid_tgid(). */
static __always_inline __u64 current_ids(const struct cpu_state *state)
{
	return knows_current(state) ? current_ids_by_word(state) : bpf_get_current_pid_tgid();
}

#endif /* CURRENT_BPF_H */
