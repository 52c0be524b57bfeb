/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Long waits with what went on around them (--episodes).
 *
 * The rings of relief records are read only around a wait that is kept: the
 * longest of each interval, and those in progress when it ends.
 */
#ifndef LOCKLINE_EPISODES_H
#define LOCKLINE_EPISODES_H

#include <stdbool.h>
#include <linux/types.h>

#include "waits/events.h"
#include "holders/holders.h"

struct episodes;

struct episode_losses {
	__u64 not_kept;        /* long waits beyond those of an interval that are kept with their evidence */
	__u64 without_records; /* episodes whose records would have made the recording too large */
};

/* holders: NULL without --holders.  threshold_ns: from which age on a wait in progress is one. */
int episodes_open(struct episodes **out, const struct maps *maps, struct recording *recording,
		  const struct holders *holders, const struct stacks *stacks, const struct lock_names *names,
		  __u64 threshold_ns);
void episodes_close(struct episodes *episodes);
/* A long wait; fired: it is the one that ended a flight, kept in any case. */
int episodes_on_wait(struct episodes *episodes, const struct long_wait *wait, bool fired);
/* Something that is no wait ended a flight: what all CPUs did up to now. */
int episodes_snapshot(struct episodes *episodes, __u64 now_ns);
/* Copies from the rings what surrounds the waits heard of; those of the last moment wait for what comes after, unless all. */
int episodes_collect(struct episodes *episodes, __u64 now_ns, bool all);
/* In flight: lets go of waits that ended before, and of those in progress. */
void episodes_forget(struct episodes *episodes, __u64 before_ns);
/* The interval is over: stores what was kept. */
int episodes_write(struct episodes *episodes, __u64 now_ns);
const struct episode_losses *episodes_losses(const struct episodes *episodes);

#endif /* LOCKLINE_EPISODES_H */
