/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record --self-check: slices with and without the deeper probes, and what an
 * observer that is always on saw in each.  The judgement is the report's.
 *
 * Probes are attached and detached in truth.  A program that returned at once
 * would still be called at every unlock, which is most of what it costs, so that
 * the slices without would have it too.
 */
#ifndef LOCKLINE_SELF_CHECK_H
#define LOCKLINE_SELF_CHECK_H

#include <linux/types.h>

#include "cli/options.h"
#include "probes/probes.h"
#include "recording/recording.h"

struct self_check;

/* Signals must be blocked already.  *out is NULL without --self-check.  A failure has been told. */
int self_check_open(struct self_check **out, const struct options *options, struct probes *probes,
		    struct recording *recording);
void self_check_close(struct self_check *check);
/* What is being switched, and by whom it is observed: into meta, and told. */
int self_check_begin(struct self_check *check);
/* From the poll loop: does what is due, one probe at a time; *next is when to be called again. */
int self_check_tick(struct self_check *check, __u64 *next);

#endif /* LOCKLINE_SELF_CHECK_H */
