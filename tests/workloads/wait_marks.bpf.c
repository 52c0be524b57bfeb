// SPDX-License-Identifier: GPL-2.0
/*
 * Marks before, between and after the programs of lock:contention_begin and contention_end: how long each of them takes
 * for one and the same wait.  The programs of a raw tracepoint run in the order in which they were attached.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "wait_marks.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HALVES);
	__type(key, __u32);
	__type(value, struct marked);
} marked SEC(".maps");

static __always_inline int mark(enum half half, __u32 gap)
{
	__u32 index = bpf_get_smp_processor_id() * HALVES + half, bucket;
	struct marked *own = bpf_map_lookup_elem(&marked, &index);
	__u64 ns;

	if (!own)
		return 0;
	if (gap) {
		ns = bpf_ktime_get_ns() - own->marked_ns;
		bucket = ns < GAP_BUCKETS << BUCKET_SHIFT ? ns >> BUCKET_SHIFT : GAP_BUCKETS - 1;
		own->sum_ns[gap] += ns;
		own->buckets[gap][bucket & (GAP_BUCKETS - 1)]++;
	}
	own->marked_ns = bpf_ktime_get_ns();
	return 0;
}

#define MARK(gap)                             \
	SEC("raw_tp/contention_begin")        \
	int begin_##gap(void *context)        \
	{                                     \
		return mark(HALF_BEGIN, gap); \
	}                                     \
	SEC("raw_tp/contention_end")          \
	int end_##gap(void *context)          \
	{                                     \
		return mark(HALF_END, gap);   \
	}

MARK(0)
MARK(1)
MARK(2)
MARK(3)
MARK(4)
MARK(5)

SEC("raw_tp/contention_begin")
int begin_empty(void *context)
{
	return 0;
}

SEC("raw_tp/contention_end")
int end_empty(void *context)
{
	return 0;
}

SEC("raw_tp/contention_begin")
int begin_clock(void *context)
{
	return bpf_ktime_get_ns() == 0;
}

SEC("raw_tp/contention_end")
int end_clock(void *context)
{
	return bpf_ktime_get_ns() == 0;
}

char LICENSE[] SEC("license")
= "GPL";
