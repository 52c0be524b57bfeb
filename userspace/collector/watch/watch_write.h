/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A watched line in the recording. */
#ifndef LOCKLINE_WATCH_WRITE_H
#define LOCKLINE_WATCH_WRITE_H

#include "waits/locks.h"
#include "base/proc.h"
#include "recording/recording.h"
#include "watch/watch_freed.h"
#include "watch/watch_sums.h"
#include "watch/watch_target.h"
#include "watch/watch_decoded.h"
#include "watch/watch_windows.h"

/* Numbers of watched lines, their sources, threads and code: those of the PMU in the same recording begin at 1. */
#define WATCH_IDS 1000000

struct watch_line {
	struct watched watched;
	__u32 id; /* in the recording */
	struct watch_sums sums;
	struct watch_decoded_sums told;
	/* The row of watch_window that is not written yet. */
	struct watch_window_row {
		__u64 begin_ns;
		__u64 end_ns; /* 0: there is none */
		__u32 places;
		__u64 hits;
		__u64 lost;
		__u64 transfers;
		bool cut;
		int changed;
	} row;
	__u64 begin_ns;
	__u64 end_ns;
	__u64 windows;
	__u64 watched_ns;
	__u64 hits;
	__u64 lost;
	__u64 transfers;
	struct watch_freed freed;  /* of the target's object; nothing of a process's memory */
	__u64 task;                /* whose member it is; 0: nobody's */
	struct process_stat owner; /* of the task or the process; no start time: none, or not known */
	__u64 exclusive_loads;     /* by programs */
	bool gone;
	bool over; /* not watched any more */
	char ended[128];
};

int watch_write_source(struct recording *recording, int slots);
int watch_write_line(struct recording *recording, const struct watch_line *line);
int watch_write_window(struct recording *recording, const struct watch_line *line);
/* What changed since the last call, and the line's own rows. */
int watch_write_sums(struct recording *recording, struct watch_line *line, struct locks *locks,
		     const struct options *options, const struct watch_cost *cost);

#endif /* LOCKLINE_WATCH_WRITE_H */
