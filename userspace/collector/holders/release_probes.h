/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The programs of --holders and --holds, and what they cost. */
#ifndef LOCKLINE_RELEASE_PROBES_H
#define LOCKLINE_RELEASE_PROBES_H

#include "probes/probe_cost.h"
#include "probes/probes.h"

/* Appends them in the order of attaching; returns the new count. */
int release_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count);

/* What the probes of unlocks do in a short window before the recording begins. */
int release_cost(const struct probes *probes, struct probe_cost *cost);
/* To the person who waits: err is what release_cost() returned. */
void release_cost_tell(const struct probe_cost *cost, int err, const struct plan *plan, bool holds, long cpus);

#endif /* LOCKLINE_RELEASE_PROBES_H */
