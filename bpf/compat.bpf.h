/* SPDX-License-Identifier: GPL-2.0 */
/* One helper per kernel difference, with the version (and commit) that made it. */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/*
 * Since 7.x tracepoint programs run preemptible (probes under SRCU), and a
 * preempted program keeps every other task's end on that CPU out.  The kfuncs
 * came with 6.10 (fc7566ad0a82); before them tracepoints are not preemptible.
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void stay_on_cpu(void)
{
	if (bpf_preempt_disable)
		bpf_preempt_disable();
}

static __always_inline void leave_cpu(void)
{
	if (bpf_preempt_enable)
		bpf_preempt_enable();
}

/* First argument as a number: the verifier allows no arithmetic on the typed pointer.  Since 5.17. */
static __always_inline __u64 function_lock(void *ctx)
{
	__u64 lock = 0;

	bpf_get_func_arg(ctx, 0, &lock);
	return lock;
}

#endif /* COMPAT_BPF_H */
