// SPDX-License-Identifier: GPL-2.0
/*
 * A classifier that holds one bpf_spin_lock over a bounded loop.  Run on two
 * CPUs by BPF_PROG_TEST_RUN it makes spinlock waits; it logs when it ran.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "spinlock.h"

#define HOLD_TURNS 60000

struct guarded {
	struct bpf_spin_lock lock;
	__u32 sum;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guarded);
} guarded SEC(".maps");

struct runs runs_of[2];

static __always_inline void lock_and_hold(struct __sk_buff *packet, int turns)
{
	__u32 zero = 0;
	struct guarded *guard = bpf_map_lookup_elem(&guarded, &zero);
	struct runs *mine = &runs_of[packet->mark & 1];
	struct run *run = &mine->run[mine->count & (MOST_RUNS - 1)];

	if (!guard)
		return;
	run->begin_ns = bpf_ktime_get_ns();
	bpf_spin_lock(&guard->lock);
	for (int i = 0; i < turns; i++)
		*(volatile __u32 *)&guard->sum += i;
	bpf_spin_unlock(&guard->lock);
	run->end_ns = bpf_ktime_get_ns();
	mine->count++;
}

SEC("tc")
int hold_long(struct __sk_buff *packet)
{
	lock_and_hold(packet, HOLD_TURNS);
	return 0;
}

SEC("tc")
int hold_nothing(struct __sk_buff *packet)
{
	lock_and_hold(packet, 0);
	return 0;
}

/* Begins of spinlock waits in the two threads, counted without lockline. */
__u32 threads[2];
__u64 begins[2];

SEC("tp_btf/contention_begin")
int count_begin(__u64 *context)
{
	__u32 thread = (__u32)bpf_get_current_pid_tgid();

	if (context[1] == 1 && thread == threads[0])
		__sync_fetch_and_add(&begins[0], 1);
	else if (context[1] == 1 && thread == threads[1])
		__sync_fetch_and_add(&begins[1], 1);
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
