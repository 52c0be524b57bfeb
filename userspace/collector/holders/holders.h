/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Drains the rings of turns (--holders), and stores who held the locks that others waited for. */
#ifndef LOCKLINE_HOLDERS_H
#define LOCKLINE_HOLDERS_H

#include <linux/types.h>

#include "base/ring.h"
#include "waits/locks.h"
#include "probes/maps.h"
#include "waits/stacks.h"
#include "holders/holdings.h"

struct holders;

struct holder_losses {
	struct ring_losses ring;
	__u64 holds; /* holds whose start or release was not seen */
};

int holders_open(struct holders **out, const struct maps *maps, struct recording *recording, struct locks *locks,
		 const struct stacks *stacks);
void holders_close(struct holders *holders);
/*
 * Has the programs tell when rings fill; map: of their events.  *fd: readable then, until the next holders_drain(); -1:
 * they cannot.  Negative errno: out of memory.
 */
int holders_wake_by(struct holders *holders, int map, int *fd);
/*
 * Reads all rings.  Turns of the last moment wait for those that another CPU is
 * still writing, unless it is the last call.
 */
int holders_drain(struct holders *holders, __u64 now_ns, bool last);
/* Copies what the rings hold; holders_drain() reads it later. */
void holders_put_aside(struct holders *holders);
/* Stores what changed, and chooses the locks whose holds are measured. */
int holders_flush(struct holders *holders);
/* Id in the recording of the stack taken at the release at that position of the CPU's ring; 0: none, or not read yet. */
__s64 holders_stack(const struct holders *holders, __u32 cpu, __u64 position);
void holders_losses(const struct holders *holders, struct holder_losses *losses, struct holdings_losses *judged);
size_t holders_bytes(const struct holders *holders);

#endif /* LOCKLINE_HOLDERS_H */
