// SPDX-License-Identifier: GPL-2.0
/* As probe_cost.bpf.c: one program for entry and exit (fsession, 7.0), and a word that the trampoline has for it. */
#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 runs;

/* kernel/trace/bpf_trace.c. */
extern bool bpf_session_is_return(void *context) __ksym __weak;
extern __u64 *bpf_session_cookie(void *context) __ksym __weak;

SEC("fentry/__task_pid_nr_ns")
int session(void *context)
{
	__u64 *cookie = bpf_session_cookie(context);

	if (!bpf_session_is_return(context))
		*cookie = 1;
	else
		runs += *cookie;
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
