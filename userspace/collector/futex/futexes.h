/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Futexes (record --futex): sums the programs' tables, names futexes, verifies owners, stores all of it. */
#ifndef LOCKLINE_FUTEXES_H
#define LOCKLINE_FUTEXES_H

#include <stdbool.h>
#include <linux/types.h>

#include "waits/locks.h"
#include "names/lock_names.h"
#include "cli/options.h"
#include "probes/probes.h"
#include "recording/recording.h"
#include "probes/sizing.h"
#include "waits/stacks.h"

/* What it keeps for each slot of a task in a futex call: who owns what that one waits for. */
#define FUTEX_OWNED_BYTES 24

struct futexes;
struct lockline_bpf;

/* Before load: sizes of the maps; wanted: with --futex. */
int futexes_resize(struct lockline_bpf *bpf, const struct sizing *sizing, bool wanted);
/* After load.  stacks needs user symbols.  samples: a second, of all CPUs; 0: FUTEX_SAMPLES_A_SECOND. */
int futexes_open(struct futexes **out, struct lockline_bpf *bpf, const struct sizing *sizing,
		 struct recording *recording, struct locks *locks, const struct stacks *stacks, __u32 samples);
void futexes_close(struct futexes *futexes);
/* After attaching: the waits that began before. */
void futexes_meet_waiting(struct futexes *futexes, const struct probes *probes, const struct options *options,
			  __u64 begin_ns);
/* Reads the samples. */
int futexes_drain(struct futexes *futexes);
/* Copies what the rings hold; futexes_drain() reads it later. */
void futexes_put_aside(struct futexes *futexes);
/* Stores the totals, the waits in progress, the bucket locks, and what was lost. */
int futexes_flush(struct futexes *futexes, __u64 now_ns);

#endif /* LOCKLINE_FUTEXES_H */
