/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The windows in which lines are watched: a thread of their own sets and
 * clears the watchpoints in time, whatever the recording does meanwhile, and
 * hands on what each window saw.
 */
#ifndef LOCKLINE_WATCH_WINDOWS_H
#define LOCKLINE_WATCH_WINDOWS_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/watch.h"
#include "cli/options.h"
#include "watch/watch_budget.h"
#include "watch/watch_events.h"
#include "watch/watch_queue.h"

#define WATCH_LINES 64

struct lockline_bpf;

/* A line as the thread knows it. */
struct watch_place {
	__u64 address; /* of its first byte */
	__u32 tgid;    /* whose it is; 0: the kernel's */
	__u32 places;  /* mask of the eighths that are of interest */
};

struct watch_windows;

int watch_windows_open(struct watch_windows **out, struct lockline_bpf *bpf, __u32 cpus, const struct id_list *wanted);
void watch_windows_close(struct watch_windows *windows);
/* How many watchpoints can be set at once; negative: what the kernel says to a watchpoint there. */
int watch_windows_try(struct watch_windows *windows, __u64 line);
/* The thread begins; it watches nothing before there is a line.  share: of CPU time, 0: unlimited. */
int watch_windows_begin(struct watch_windows *windows, double share, const struct watch_cost *cost);
/* The number of the new line, or -ENOSPC. */
int watch_windows_add(struct watch_windows *windows, const struct watch_place *place);
/* From now on one of so many windows of the line has two watchpoints at each place; 0: none. */
void watch_windows_type(struct watch_windows *windows, __u32 line, __u32 every);
/* Whether a window of the line with two at each place watches as much as others do. */
bool watch_windows_typed_are_whole(struct watch_windows *windows, __u32 line);
/* The line is not watched any more. */
void watch_windows_drop(struct watch_windows *windows, __u32 line);
/* No watchpoint is left when it returns. */
void watch_windows_end(struct watch_windows *windows);
/* The windows since the last call, in order; to be freed one by one. */
struct watch_window *watch_windows_take(struct watch_windows *windows);
/* Why the line could not be watched the last time that it was its turn, or 0. */
int watch_windows_error(struct watch_windows *windows, __u32 line);
/* Hits by other processes at the same address. */
__u64 watch_windows_others(const struct watch_windows *windows);
/* Whether CPUs came or went since the beginning. */
bool watch_windows_cpus_changed(const struct watch_windows *windows);
/* CPU time of the thread. */
__u64 watch_windows_own_ns(const struct watch_windows *windows);

#endif /* LOCKLINE_WATCH_WINDOWS_H */
