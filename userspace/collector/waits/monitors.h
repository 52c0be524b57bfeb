/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Looks at the monitors of JVMs, put into the recording: so many rows of it at most, whatever a JVM has or forges. */
#ifndef LOCKLINE_MONITORS_H
#define LOCKLINE_MONITORS_H

#include "naming/naming_queue.h"
#include "recording/recording.h"

#define MONITOR_ROWS 2048 /* of monitors, their threads, and JVMs */

struct monitors {
	__u32 count;
	__u64 rows[2 * MONITOR_ROWS]; /* hashes of those that are there; 0: free */
};

/* What finds no room for a row counts as untold, or is left out of the threads. */
int monitors_put(struct monitors *monitors, struct recording *recording, const struct monitor_look *look);

#endif /* LOCKLINE_MONITORS_H */
