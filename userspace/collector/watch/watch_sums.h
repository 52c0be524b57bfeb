/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Accesses of a watched line, in the order of time, summed up: who touched
 * which bytes by which instruction, and which CPU touched them after which
 * other one had written.
 *
 * A transfer: the first access by another CPU after a write.  If it reads, the
 * line is clean from then on, until the next write; that is what a HITM is in
 * hardware, and what the caches of a model do.
 */
#ifndef LOCKLINE_WATCH_SUMS_H
#define LOCKLINE_WATCH_SUMS_H

#include <stdbool.h>
#include <linux/types.h>

#include "base/hash_index.h"
#include "watch/watch_code.h"

#define WATCH_CPUS 8192

struct watch_hit {
	__u64 ns;
	__u64 lock;   /* that was waited for; with kind */
	__u32 code;   /* number, as in the recording */
	__u32 thread; /* likewise */
	__u16 cpu;
	__u8 offset;
	__u8 access; /* ACCESS_*; 0: not known */
	__u8 kind;   /* WATCH_NO_KIND: no wait */
	__u8 flags;  /* WATCH_* of bpf/watch.h */
};

struct watch_access_sum {
	__u32 code;
	__u32 thread;
	__u8 offset;
	bool changed; /* since it was written last */
	__u64 records;
	__u64 loads;
	__u64 stores;
	__u64 locked;
	__u64 in_wait;
	__u64 interrupts_off;
	__u32 cpu_bytes;
	__u8 *cpus; /* little-endian bit set */
};

struct watch_transfer_sum {
	__u32 from_code;
	__u32 code;
	__u16 from_cpu;
	__u16 cpu;
	__u8 from_offset;
	__u8 offset;
	bool write;
	bool changed;
	__u64 transfers;
};

struct watch_wait_sum {
	__u64 lock;
	__u8 kind;
	bool changed;
	__u64 records;
	__u64 transfers;
};

struct watch_sums {
	struct watch_access_sum *accesses;
	__u32 access_count;
	__u32 access_capacity;
	struct hash_index access_index;
	struct watch_transfer_sum *transfers;
	__u32 transfer_count;
	__u32 transfer_capacity;
	struct hash_index transfer_index;
	struct watch_wait_sum *waits;
	__u32 wait_count;
	__u32 wait_capacity;
	struct hash_index wait_index;
	struct memory_budget *budget;
	struct watch_hit writer; /* whose bytes are dirty in its CPU's cache */
	bool dirty;
	__u64 refused; /* hits beyond the budget of memory: in no sum */
};

void watch_sums_open(struct watch_sums *sums, struct memory_budget *budget);
void watch_sums_close(struct watch_sums *sums);
/* What was not watched is not known: the next access is no transfer. */
void watch_sums_begin(struct watch_sums *sums);
/* In the order of time.  1: a transfer, 0, or -ENOMEM. */
int watch_sums_add(struct watch_sums *sums, const struct watch_hit *hit);

#endif /* LOCKLINE_WATCH_SUMS_H */
