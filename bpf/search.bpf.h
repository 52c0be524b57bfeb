/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loops that the verifier walks once: the search for a row, and those for an address in a stack.  For one file of the
 * collector's alone: libbpf 1.1 cannot link two objects that call the same kernel function, and a function that is not
 * static is in each object.
 */
#ifndef SEARCH_BPF_H
#define SEARCH_BPF_H

#include "spinning.bpf.h"
#include "table.bpf.h"

VERIFIED_ONCE __u32 search_rows_once(struct cpu_state *state, __u64 lock, __u32 kind, bool claim)
{
	return search_all_rows(state, lock, kind, claim);
}

VERIFIED_ONCE int mentions_resilient(__u64 stack)
{
	__u64 words[STACK_WORDS];

	if (bpf_probe_read_kernel(words, sizeof(words), (const void *)stack))
		return 1;
	for (int i = 0; i < STACK_WORDS; i++)
		if (in_resilient_text(words[i]))
			return 1;
	return 0;
}

VERIFIED_ONCE int find_caller_word(__u64 stack)
{
	__u64 words[STACK_WORDS];

	if (bpf_probe_read_kernel(words, sizeof(words), (const void *)stack))
		return 0;
	for (int i = 0; i < STACK_WORDS; i++)
		if (in_spin_text(words[i]))
			return i + 1;
	return 0;
}

#endif /* SEARCH_BPF_H */
