/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The programs of --holders and --holds, and what they cost. */
#ifndef LOCKLINE_RELEASE_PROBES_H
#define LOCKLINE_RELEASE_PROBES_H

#include "probes/probes.h"

/* Appends them in the order of attaching; returns the new count. */
int release_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count);

/* What the probes of unlocks do in a short window before the recording begins. */
struct release_cost {
	__u64 window_ns;
	__u64 runs;
	__u64 run_ns; /* in the programs alone, with the measurement's own 30 ns or so */
};

int release_cost(const struct probes *probes, struct release_cost *cost);
/* To the person who waits: err is what release_cost() returned. */
void release_cost_tell(const struct release_cost *cost, int err, bool holds, long cpus);

#endif /* LOCKLINE_RELEASE_PROBES_H */
