/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of an interval, in a thread of its own: whoever reads the rings never waits for the file system, however long
 * that takes (a frozen one, a server that is gone, a slow disk).
 */
#ifndef LOCKLINE_RECORDING_INTERVAL_H
#define LOCKLINE_RECORDING_INTERVAL_H

#include <stdbool.h>
#include <linux/types.h>

#include "recording/recording_keep.h"

struct recording_interval_end {
	struct keeper *keeper;
	__u64 now_ns; /* when the interval ended */
	/* Called every few milliseconds until it is done; must not use the recording. */
	void (*meanwhile)(void *context);
	void *context;
	__u64 cpu_ns; /* out: CPU time that it took */
	bool stalled; /* out: the file system does not answer, and a message said so */
};

/* Keeps of the past what it should, commits, settles, begins the next interval.  Returns when that is done. */
int recording_end_interval(struct recording *recording, struct recording_interval_end *end);

#endif /* LOCKLINE_RECORDING_INTERVAL_H */
