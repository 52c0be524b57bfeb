/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record --hitm: samples of the PMU's memory events, each with the lock wait
 * that was in flight.  The plan says what is not available, and the recording goes on.
 */
#ifndef LOCKLINE_LIVE_MEMORY_H
#define LOCKLINE_LIVE_MEMORY_H

#include "waits/locks.h"
#include "names/symbols.h"
#include "cli/options.h"
#include "kernel/plan.h"
#include "probes/probes.h"

struct live_memory;

/* Before load: sizes, and whether the program is loaded at all. */
int live_memory_resize(struct lockline_bpf *bpf, __u32 cpus, bool wanted);
/* Opens the events; without any *out is NULL, and the plan knows why.  Samples count from probes_start() on. */
int live_memory_open(struct live_memory **out, const struct options *options, struct plan *plan, struct probes *probes,
		     struct recording *recording, struct locks *locks, const struct symbols *symbols);
/* All of these do nothing with NULL. */
int live_memory_drain(struct live_memory *memory);
/* No sample after this. */
void live_memory_stop(struct live_memory *memory);
/*
 * Brings the tables of memory accesses up to date, unless the last time was too
 * dear to do it again already.  pause is called every few rows, but not the last time.
 */
int live_memory_write(struct live_memory *memory, int (*pause)(void *context), void *context, bool last);
/* After the commit: what it took of a CPU's time. */
void live_memory_committed(struct live_memory *memory, __u64 cpu_ns);
void live_memory_close(struct live_memory *memory);

#endif /* LOCKLINE_LIVE_MEMORY_H */
