/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The search for a row that the verifier walks once.  For one file of the collector's alone: libbpf 1.1 cannot link two
 * objects that call the same kernel function, and a function that is not static is in each object.
 */
#ifndef SEARCH_BPF_H
#define SEARCH_BPF_H

#include "table.bpf.h"

VERIFIED_ONCE __u32 search_rows_once(struct cpu_state *state, __u64 lock, __u32 kind, bool claim)
{
	return search_all_rows(state, lock, kind, claim);
}

#endif /* SEARCH_BPF_H */
