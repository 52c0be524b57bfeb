/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a recording that goes on for days keeps of its past.
 *
 * Intervals become longer as they age: rows of INTERVAL, then of ten times
 * that, then of sixty times that.  Sums, maxima and histograms of what is
 * rolled up are exact; of single long waits the longest are kept.  Intervals
 * older than --keep are removed, and with --max-size as many of the oldest as
 * must be.  Totals are of the whole recording and stay.
 */
#ifndef LOCKLINE_RECORDING_KEEP_H
#define LOCKLINE_RECORDING_KEEP_H

#include <stdbool.h>
#include <linux/types.h>

#include "recording/recording.h"

#define KEEP_TIERS 2

struct keeper {
	__u64 keep_ns;            /* 0: for ever */
	__u64 max_bytes;          /* of the file and its journal; 0: no bound */
	__u64 interval_ns;        /* as recorded */
	__s64 rolled[KEEP_TIERS]; /* the last interval that each tier has looked at, at first -1 */
	__u32 squeeze;            /* how often the ages were halved for want of space */
	bool told;                /* that the bound cannot be held */
};

/* Whether there is anything to do. */
static inline bool keeper_wanted(const struct keeper *keeper)
{
	return keeper->keep_ns || keeper->max_bytes;
}

/* Before the first interval. */
int recording_keep_begin(struct recording *recording, const struct keeper *keeper);
/* After an interval that ended at now_ns was put, before its commit; a bounded amount of work. */
int recording_keep(struct recording *recording, struct keeper *keeper, __u64 now_ns);

#endif /* LOCKLINE_RECORDING_KEEP_H */
