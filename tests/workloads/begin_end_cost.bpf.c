// SPDX-License-Identifier: GPL-2.0
/*
 * An empty pair: what the kernel's own statistics take for a program that does nothing; and a pair that reads the clock,
 * as each begin and each end of a wait has to.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tp_btf/contention_begin")
int empty_begin(__u64 *context)
{
	return 0;
}

SEC("tp_btf/contention_end")
int empty_end(__u64 *context)
{
	return 0;
}

SEC("tp_btf/contention_begin")
int clock_begin(__u64 *context)
{
	return bpf_ktime_get_ns() == 0;
}

SEC("tp_btf/contention_end")
int clock_end(__u64 *context)
{
	return bpf_ktime_get_ns() == 0;
}

char LICENSE[] SEC("license")
= "GPL";
