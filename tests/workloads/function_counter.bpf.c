// SPDX-License-Identifier: GPL-2.0
/* Counts calls of a kernel function and turns of wait_task_inactive(), and does nothing else. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 calls = 0;
__u64 turns = 0;

SEC("?fentry/read_hpet")
int call(void *context)
{
	__sync_fetch_and_add(&calls, 1);
	return 0;
}

SEC("?kprobe")
int call_by_kprobe(void *context)
{
	__sync_fetch_and_add(&calls, 1);
	return 0;
}

SEC("tp_btf/sched_wait_task")
int turn(void *context)
{
	__sync_fetch_and_add(&turns, 1);
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
