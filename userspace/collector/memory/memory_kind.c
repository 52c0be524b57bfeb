// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/memory_kind.h"

/* The fields of union perf_mem_data_src, include/uapi/linux/perf_event.h: the same value on either byte order. */
#define FIELD(value, shift, bits) ((value) >> (shift) & ((1u << (bits)) - 1))

enum {
	OP_LOAD = 1 << 1,
	OP_STORE = 1 << 2,
};

enum {
	LVL_NA = 1 << 0,
	LVL_HIT = 1 << 1,
	LVL_MISS = 1 << 2,
	LVL_L1 = 1 << 3,
	LVL_LFB = 1 << 4,
	LVL_L2 = 1 << 5,
	LVL_L3 = 1 << 6,
	LVL_LOC_RAM = 1 << 7,
	LVL_REM_RAM = 1 << 8 | 1 << 9,
	LVL_REM_CCE = 1 << 10 | 1 << 11,
	LVL_IO = 1 << 12,
	LVL_UNC = 1 << 13,
};

enum {
	SNOOP_HIT = 1 << 2,
	SNOOP_HITM = 1 << 4,
	SNOOPX_PEER = 1 << 1,
	LOCK_LOCKED = 1 << 1,
	BLK_DATA = 1 << 1,
	BLK_ADDR = 1 << 2,
};

static __u32 load_kind(__u64 data_src, __u32 level)
{
	__u32 snoop = FIELD(data_src, 19, 5), kind = 0;
	bool peer = FIELD(data_src, 38, 2) & SNOOPX_PEER;
	/* Skylake's way to say remote; with hops it means another core, on POWER. */
	bool remote = FIELD(data_src, 37, 1) && !FIELD(data_src, 43, 3);

	if (level & LVL_HIT) {
		kind |= level & LVL_UNC ? ACCESS_UNCACHED : 0;
		kind |= level & LVL_IO ? ACCESS_IO : 0;
		kind |= level & LVL_LFB ? ACCESS_FILL_BUFFER : 0;
		kind |= level & LVL_L1 ? ACCESS_L1_HIT : 0;
		/* HITM in L2 is one since 6.17, fa9b3578ed62; before it was a hit. */
		if (level & LVL_L2)
			kind |= (snoop & SNOOP_HITM ? ACCESS_L2_HITM : ACCESS_L2_HIT) | (peer ? ACCESS_L2_PEER : 0);
		if (level & LVL_L3)
			kind |= (snoop & SNOOP_HITM ? ACCESS_LLC_HITM : ACCESS_LLC_HIT) | (peer ? ACCESS_LLC_PEER : 0);
		kind |= level & LVL_LOC_RAM ? ACCESS_LOCAL_DRAM : 0;
		kind |= level & LVL_REM_RAM || remote ? ACCESS_REMOTE_DRAM : 0;
		if (kind & (ACCESS_LOCAL_DRAM | ACCESS_REMOTE_DRAM) && snoop & SNOOP_HIT)
			kind |= ACCESS_DRAM_SHARED;
	}
	if (level & LVL_REM_CCE || remote) {
		if (snoop & SNOOP_HIT)
			kind |= ACCESS_REMOTE_HIT;
		else if (snoop & SNOOP_HITM)
			kind |= ACCESS_REMOTE_HITM;
		else if (peer)
			kind |= ACCESS_REMOTE_HIT | ACCESS_REMOTE_PEER;
	}
	return kind | (level & LVL_MISS ? ACCESS_MISS : 0);
}

static __u32 store_kind(__u32 level)
{
	__u32 kind = 0;

	if (level & LVL_HIT) {
		kind |= level & LVL_UNC ? ACCESS_UNCACHED : 0;
		kind |= level & LVL_L1 ? ACCESS_STORE_L1_HIT : 0;
	}
	if (level & LVL_MISS && level & LVL_L1)
		kind |= ACCESS_STORE_L1_MISS;
	return kind | (level & LVL_NA ? ACCESS_STORE_UNKNOWN : 0);
}

__u32 memory_kind(__u64 data_src, __u64 address, bool mapped)
{
	__u32 op = FIELD(data_src, 0, 5), level = FIELD(data_src, 5, 14), blocked = FIELD(data_src, 40, 3), kind = 0;

	kind |= FIELD(data_src, 24, 2) & LOCK_LOCKED ? ACCESS_LOCKED : 0;
	kind |= blocked & BLK_DATA ? ACCESS_BLOCKED_DATA : 0;
	kind |= blocked & BLK_ADDR ? ACCESS_BLOCKED_ADDRESS : 0;
	if (!(op & (OP_LOAD | OP_STORE)))
		return kind;
	kind |= op & OP_LOAD ? ACCESS_LOAD : ACCESS_STORE;
	if (!address)
		return kind | ACCESS_NO_ADDRESS;
	kind |= op & OP_LOAD ? load_kind(data_src, level) : store_kind(level);
	return kind | (mapped ? 0 : ACCESS_NO_MAP);
}

void memory_counts_add(struct memory_counts *counts, __u32 kind, __u64 count)
{
	__u64 load = kind & ACCESS_LOAD ? count : 0, store = kind & ACCESS_STORE ? count : 0;
	__u64 dram = count * (!!(kind & ACCESS_LOCAL_DRAM) + !!(kind & ACCESS_REMOTE_DRAM));
	__u64 local_hitm = count * (!!(kind & ACCESS_L2_HITM) + !!(kind & ACCESS_LLC_HITM));
	__u64 local_peer = count * (!!(kind & ACCESS_L2_PEER) + !!(kind & ACCESS_LLC_PEER));
	__u64 remote_hitm = kind & ACCESS_REMOTE_HITM ? count : 0, remote_peer = kind & ACCESS_REMOTE_PEER ? count : 0;

	counts->nr_entries += count;
	counts->locks += kind & ACCESS_LOCKED ? count : 0;
	counts->blk_data += kind & ACCESS_BLOCKED_DATA ? count : 0;
	counts->blk_addr += kind & ACCESS_BLOCKED_ADDRESS ? count : 0;
	counts->nomap += kind & ACCESS_NO_MAP ? count : 0;
	counts->noparse += kind & (ACCESS_LOAD | ACCESS_STORE) ? 0 : count;
	counts->load += load;
	counts->ld_noadrs += kind & ACCESS_NO_ADDRESS ? load : 0;
	counts->ld_uncache += kind & ACCESS_UNCACHED ? load : 0;
	counts->ld_io += kind & ACCESS_IO ? count : 0;
	counts->ld_miss += kind & ACCESS_MISS ? count : 0;
	counts->ld_fbhit += kind & ACCESS_FILL_BUFFER ? count : 0;
	counts->ld_l1hit += kind & ACCESS_L1_HIT ? count : 0;
	counts->ld_l2hit += kind & ACCESS_L2_HIT ? count : 0;
	counts->ld_llchit += kind & ACCESS_LLC_HIT ? count : 0;
	counts->lcl_hitm += local_hitm;
	counts->rmt_hitm += remote_hitm;
	counts->tot_hitm += local_hitm + remote_hitm;
	counts->lcl_peer += local_peer;
	counts->rmt_peer += remote_peer;
	counts->tot_peer += local_peer + remote_peer;
	counts->rmt_hit += kind & ACCESS_REMOTE_HIT ? count : 0;
	counts->lcl_dram += kind & ACCESS_LOCAL_DRAM ? count : 0;
	counts->rmt_dram += kind & ACCESS_REMOTE_DRAM ? count : 0;
	counts->ld_shared += kind & ACCESS_DRAM_SHARED ? dram : 0;
	counts->ld_excl += kind & ACCESS_DRAM_SHARED ? 0 : dram;
	counts->store += store;
	counts->st_noadrs += kind & ACCESS_NO_ADDRESS ? store : 0;
	counts->st_uncache += kind & ACCESS_UNCACHED ? store : 0;
	counts->st_l1hit += kind & ACCESS_STORE_L1_HIT ? count : 0;
	counts->st_l1miss += kind & ACCESS_STORE_L1_MISS ? count : 0;
	counts->st_na += kind & ACCESS_STORE_UNKNOWN ? count : 0;
}
