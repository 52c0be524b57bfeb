// SPDX-License-Identifier: GPL-2.0
/*
 * Marks before, between and after the programs of lock:contention_begin and contention_end: how long each of them takes
 * for one and the same wait.  The programs of a raw tracepoint run in the order in which they were attached.
 */
#include <stdbool.h>

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

/* The least: LCB_F_SPIN of include/trace/events/lock.h; powers of two: rows of each CPU, such CPUs, and slots. */
#define SPINS    1
#define ROW_BITS 11
#define CPUS     16
#define ROWS     (CPUS << ROW_BITS)
#define SLOTS    4096

/* Where a wait that began is kept: of who spins at its CPU, of who sleeps at its thread. */
struct slot {
	__u64 lock;
	__u64 begin_ns;
};

/* One line.  Two locks of one place take it from each other: the least is no tool. */
struct row {
	__u64 lock;
	__u64 waits;
	__u64 sum_ns;
	__u64 longest_ns;
	__u64 rest[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ROWS);
	__type(key, __u32);
	__type(value, struct row);
} rows SEC(".maps");

static __always_inline struct slot *slot_of(bool spins)
{
	__u32 key = spins ? bpf_get_smp_processor_id() : CPUS + (__u32)bpf_get_current_pid_tgid();

	key &= SLOTS - 1;
	return bpf_map_lookup_elem(&slots, &key);
}

SEC("raw_tp/contention_begin")
int begin_least(__u64 *context)
{
	struct slot *slot = slot_of(context[1] & SPINS);

	if (slot) {
		slot->lock = context[0];
		slot->begin_ns = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("raw_tp/contention_end")
int end_least(__u64 *context)
{
	__u64 lock = context[0], now = bpf_ktime_get_ns(), waited;
	struct slot *slot = slot_of(true);
	struct row *row;
	__u32 key;

	if (!slot || slot->lock != lock)
		slot = slot_of(false);
	if (!slot || slot->lock != lock)
		return 0;
	slot->lock = 0;
	waited = now - slot->begin_ns;
	key = (lock * 0x9e3779b97f4a7c15ULL) >> (64 - ROW_BITS);
	key = (key + (bpf_get_smp_processor_id() << ROW_BITS)) & (ROWS - 1);
	row = bpf_map_lookup_elem(&rows, &key);
	if (!row)
		return 0;
	if (row->lock != lock) {
		row->lock = lock;
		row->waits = 0;
		row->sum_ns = 0;
		row->longest_ns = 0;
	}
	row->waits++;
	row->sum_ns += waited;
	if (waited > row->longest_ns)
		row->longest_ns = waited;
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
