// SPDX-License-Identifier: GPL-2.0
/* Counts begins by flags and ends, and does nothing else: the figure to check others by. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define FLAG_VALUES 64
#define ENDS        FLAG_VALUES
#define OTHER       (FLAG_VALUES + 1)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FLAG_VALUES + 2);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 key)
{
	__u64 *counter = bpf_map_lookup_elem(&counts, &key);

	/* Atomic: since 7.x another task can run this program on this CPU meanwhile. */
	if (counter)
		__sync_fetch_and_add(counter, 1);
}

SEC("tp_btf/contention_begin")
int count_begin(__u64 *context)
{
	__u32 flags = context[1];

	count(flags < FLAG_VALUES ? flags : OTHER);
	return 0;
}

SEC("tp_btf/contention_end")
int count_end(__u64 *context)
{
	count(ENDS);
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
