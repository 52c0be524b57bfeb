/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a memory access was: the rules of c2c_decode_stats() in tools/perf/util/mem-events.c, Linux 7.2. */
#ifndef LOCKLINE_MEMORY_KIND_H
#define LOCKLINE_MEMORY_KIND_H

#include <stdbool.h>
#include <linux/types.h>

/* A sample's contributions, one bit each, so that equal ones are counted once and expanded at the end. */
enum memory_kind {
	ACCESS_LOAD = 1 << 0,
	ACCESS_STORE = 1 << 1,
	ACCESS_LOCKED = 1 << 2,
	ACCESS_BLOCKED_DATA = 1 << 3,
	ACCESS_BLOCKED_ADDRESS = 1 << 4,
	ACCESS_NO_ADDRESS = 1 << 5,
	ACCESS_NO_MAP = 1 << 6,
	ACCESS_UNCACHED = 1 << 7,
	ACCESS_IO = 1 << 8,
	ACCESS_MISS = 1 << 9,
	ACCESS_FILL_BUFFER = 1 << 10,
	ACCESS_L1_HIT = 1 << 11,
	ACCESS_L2_HIT = 1 << 12,
	ACCESS_LLC_HIT = 1 << 13,
	ACCESS_L2_HITM = 1 << 14,
	ACCESS_LLC_HITM = 1 << 15,
	ACCESS_L2_PEER = 1 << 16,
	ACCESS_LLC_PEER = 1 << 17,
	ACCESS_REMOTE_HIT = 1 << 18,
	ACCESS_REMOTE_HITM = 1 << 19,
	ACCESS_REMOTE_PEER = 1 << 20,
	ACCESS_LOCAL_DRAM = 1 << 21,
	ACCESS_REMOTE_DRAM = 1 << 22,
	ACCESS_DRAM_SHARED = 1 << 23, /* else exclusive */
	ACCESS_STORE_L1_HIT = 1 << 24,
	ACCESS_STORE_L1_MISS = 1 << 25,
	ACCESS_STORE_UNKNOWN = 1 << 26,
	/* Of live samples; they count for nothing else. */
	ACCESS_IN_WAIT = 1 << 27,
	ACCESS_INTERRUPTS_ON = 1 << 28,
	ACCESS_INTERRUPTS_OFF = 1 << 29,
};

#define ACCESS_SNOOPED \
	(ACCESS_L2_HITM | ACCESS_LLC_HITM | ACCESS_REMOTE_HITM | ACCESS_L2_PEER | ACCESS_LLC_PEER | ACCESS_REMOTE_PEER)

/* Names as in struct c2c_stats of tools/perf/util/mem-events.h. */
#define MEMORY_COUNTS(X) \
	X(nr_entries)    \
	X(locks)         \
	X(store)         \
	X(st_uncache)    \
	X(st_noadrs)     \
	X(st_l1hit)      \
	X(st_l1miss)     \
	X(st_na)         \
	X(load)          \
	X(ld_excl)       \
	X(ld_shared)     \
	X(ld_uncache)    \
	X(ld_io)         \
	X(ld_miss)       \
	X(ld_noadrs)     \
	X(ld_fbhit)      \
	X(ld_l1hit)      \
	X(ld_l2hit)      \
	X(ld_llchit)     \
	X(lcl_hitm)      \
	X(rmt_hitm)      \
	X(tot_hitm)      \
	X(lcl_peer)      \
	X(rmt_peer) X(tot_peer) X(rmt_hit) X(lcl_dram) X(rmt_dram) X(blk_data) X(blk_addr) X(nomap) X(noparse)

struct memory_counts {
#define MEMBER(name) __u64 name;
	MEMORY_COUNTS(MEMBER)
#undef MEMBER
};

/* mapped: the mappings of both the data and the instruction are known. */
__u32 memory_kind(__u64 data_src, __u64 address, bool mapped);
/* Adds count samples of this kind. */
void memory_counts_add(struct memory_counts *counts, __u32 kind, __u64 count);

#endif /* LOCKLINE_MEMORY_KIND_H */
