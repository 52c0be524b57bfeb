// SPDX-License-Identifier: GPL-2.0
/* Counts entries of the slow paths of locks, and does nothing else: the figure to check others by. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "slow_path_counter.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FUNCTIONS);
	__type(key, __u32);
	__type(value, __u64);
} entries SEC(".maps");

/* Atomic for the functions that run with preemption on. */
static __always_inline int count(__u32 function)
{
	__u64 *counter = bpf_map_lookup_elem(&entries, &function);

	if (counter)
		__sync_fetch_and_add(counter, 1);
	return 0;
}

SEC("?fentry/native_queued_spin_lock_slowpath")
int spin(void *context)
{
	return count(SPIN);
}

SEC("?fentry/__pv_queued_spin_lock_slowpath")
int paravirt_spin(void *context)
{
	return count(PARAVIRT_SPIN);
}

SEC("?fentry/queued_read_lock_slowpath")
int read(void *context)
{
	return count(READ);
}

SEC("?fentry/rwsem_down_write_slowpath")
int rwsem_write(void *context)
{
	return count(RWSEM_WRITE);
}

SEC("?fentry/percpu_down_write")
int percpu_write(void *context)
{
	return count(PERCPU_WRITE);
}

/* Where the kernel has no fentry. */
SEC("?kprobe")
int rwsem_write_by_kprobe(void *context)
{
	return count(RWSEM_WRITE);
}

SEC("?kprobe")
int percpu_write_by_kprobe(void *context)
{
	return count(PERCPU_WRITE);
}

SEC("?kprobe")
int spin_by_kprobe(void *context)
{
	return count(SPIN);
}

char LICENSE[] SEC("license")
= "GPL";
