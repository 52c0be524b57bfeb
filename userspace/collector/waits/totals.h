/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the rows of the per-CPU tables to intervals and totals in the recording. */
#ifndef LOCKLINE_TOTALS_H
#define LOCKLINE_TOTALS_H

#include <stdbool.h>
#include <linux/types.h>

#include "waits/locks.h"
#include "probes/maps.h"
#include "recording/recording.h"

/* What a row takes of the collector's own memory, beside the map's. */
#define TOTALS_ROW_BYTES (sizeof(struct row_last_read) + sizeof(__u32))

struct totals;

int totals_open(struct totals **out, const struct maps *maps, struct recording *recording, struct locks *locks);
void totals_close(struct totals *totals);

/* Stack of a waiter for lock, as the events just read have it; the number of frames, 0: none. */
typedef int (*find_stack)(void *data, __u64 lock, const __u64 **frames);

/* Meets the locks of the rows that this CPU claimed since the last call; all: looks even if it claimed none. */
int totals_meet_rows(struct totals *totals, __u32 cpu, bool all, find_stack find, void *data);
/* In flight: totals alone. */
#define NO_INTERVAL (-1)

/* Writes what the rows gained since the last flush as this interval, and the totals that changed. */
int totals_flush(struct totals *totals, __s64 interval);

#endif /* LOCKLINE_TOTALS_H */
