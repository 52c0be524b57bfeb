/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Live memory samples summed as an import sums those of a file, by the same rules, and with the waits they were taken in. */
#ifndef LOCKLINE_LIVE_SUMS_H
#define LOCKLINE_LIVE_SUMS_H

#include "bpf/memory.h"
#include "memory/live_maps.h"
#include "memory/memory_update.h"
#include "names/symbols.h"
#include "kernel/pmu.h"

struct live_sums {
	const struct symbols *symbols;
	struct memory_budget budget;
	struct memory_lines lines;
	struct memory_tasks tasks;
	struct live_maps maps;
	struct memory_topology topology; /* of CPUs alone */
	struct memory_update update;
	struct naming_client *client; /* NULL until a name is wanted */
	__u64 kept;                   /* accesses, as of an import */
	__u32 cpus;
};

/* Where the sums go. */
struct live_sums_write {
	struct recording *recording;
	const struct pmu_plan *pmu;
	const struct memory_locks *locks;
	const struct memory_counts *uncounted; /* samples that were not added */
	struct memory_turn turn;
};

/* symbols: of the running kernel. */
int live_sums_open(struct live_sums *sums, const struct symbols *symbols, __u32 cpus);
/* A record of the CPU's ring. */
int live_sums_add(struct live_sums *sums, __u32 cpu, const struct memory_record *record);
/* Into the memory_* tables, each time over what the last time left there.  To be freed by memory_rank_free() in any case. */
int live_sums_write(struct live_sums *sums, const struct live_sums_write *to, struct memory_rank *rank);
void live_sums_close(struct live_sums *sums);

#endif /* LOCKLINE_LIVE_SUMS_H */
