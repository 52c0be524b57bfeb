// SPDX-License-Identifier: GPL-2.0
/*
 * An empty pair: what the kernel's own statistics take for a program that does nothing; a pair that reads the clock, as
 * each begin and each end of a wait has to; and a pair that does the least that tells how long each lock was waited for.
 */
#include <stdbool.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "begin_end_cost.h"

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

/* Where a wait that began is kept: of who spins at its CPU, of who sleeps at its thread. */
struct slot {
	__u64 lock;
	__u64 begin_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LEAST_SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Rows of one line, those of each CPU apart; the map has page after page, so that no row lies on two lines. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LEAST_ROWS);
	__type(key, __u32);
	__type(value, struct least_row);
} rows SEC(".maps");

static struct slot *slot_of(bool spins)
{
	__u32 key = spins ? bpf_get_smp_processor_id() : LEAST_CPUS + (__u32)bpf_get_current_pid_tgid();

	key &= LEAST_SLOTS - 1;
	return bpf_map_lookup_elem(&slots, &key);
}

SEC("tp_btf/contention_begin")
int least_begin(__u64 *context)
{
	struct slot *slot = slot_of(context[1] & LEAST_SPINS);

	if (slot) {
		slot->lock = context[0];
		slot->begin_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* Who slept has a slot of the thread; of who spun the CPU has one with the lock. */
SEC("tp_btf/contention_end")
int least_end(__u64 *context)
{
	__u64 lock = context[0], now = bpf_ktime_get_ns(), waited;
	struct slot *slot = slot_of(true);
	struct least_row *row;
	__u32 key;

	if (!slot || slot->lock != lock)
		slot = slot_of(false);
	if (!slot || slot->lock != lock)
		return 0;
	slot->lock = 0;
	waited = now - slot->begin_ns;
	key = (lock * 0x9e3779b97f4a7c15ULL) >> (64 - LEAST_ROW_BITS);
	key = (key + (bpf_get_smp_processor_id() << LEAST_ROW_BITS)) & (LEAST_ROWS - 1);
	row = bpf_map_lookup_elem(&rows, &key);
	if (!row)
		return 0;
	/* Two locks of one place take the row from each other: the least is no tool. */
	if (row->lock != lock) {
		row->lock = lock;
		row->waits = 0;
		row->ns = 0;
		row->longest_ns = 0;
	}
	row->waits++;
	row->ns += waited;
	if (waited > row->longest_ns)
		row->longest_ns = waited;
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
