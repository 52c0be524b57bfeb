/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Watchpoints on all CPUs at once: perf events of debug registers, with the
 * program behind them.  They go with their file descriptors, so that a
 * collector that is killed leaves none.
 */
#ifndef LOCKLINE_WATCH_EVENTS_H
#define LOCKLINE_WATCH_EVENTS_H

#include <stdbool.h>
#include <linux/types.h>

#include "options.h"

#define WATCH_SLOTS      4 /* at once: debug registers of a CPU */
#define WATCH_SLOT_BYTES 8
#define WATCH_PLACES     (64 / WATCH_SLOT_BYTES)

struct watch_cpu_events {
	__u32 cpu;
	int fds[WATCH_SLOTS]; /* the first leads the group; -1: none */
	__u64 hits;           /* of the last window, as the kernel counts them */
	__u64 most;           /* of one place */
};

struct online_cpus;

struct watch_events {
	struct online_cpus *online;
	bool outdated;
	const struct id_list *wanted;
	struct watch_cpu_events *cpus; /* those that are online and wanted */
	__u32 cpu_count;
	int program;  /* file descriptor */
	int keeper;   /* an event that never counts: the first one and the last one of a kernel are dear */
	int slots;    /* in use */
	__u32 places; /* mask of the line's eighths that are watched */
	__u32 limit;
};

/* wanted: no ids: all; it must outlive the events. */
int watch_events_open(struct watch_events *events, int program, const struct id_list *wanted);
void watch_events_close(struct watch_events *events);
/* Whether CPUs came or went since the opening, or the last watch_events_renew(). */
bool watch_events_outdated(struct watch_events *events);
/* Takes those that are online now; no watchpoint is left. */
int watch_events_renew(struct watch_events *events);
/* How many places can be watched at once, up to WATCH_SLOTS; a negative errno of the kernel if none. */
int watch_events_free(struct watch_events *events, __u64 line);
/*
 * Sets watchpoints that do not count yet.  limit: hits of a CPU and place after
 * which the kernel switches that one off by itself; 0: none.
 */
int watch_events_set(struct watch_events *events, __u64 line, __u32 places, __u32 limit);
int watch_events_enable(struct watch_events *events);
void watch_events_disable(struct watch_events *events);
/* Reads the counts; the sum of all CPUs. */
__u64 watch_events_count(struct watch_events *events);
void watch_events_clear(struct watch_events *events);

/*
 * What a hit costs here, in ns: of an instruction that writes memory of our
 * own.  -EDEADLK: the machine does not get past a watched instruction.
 */
int watch_hit_cost(int program, __u64 *ns);

#endif /* LOCKLINE_WATCH_EVENTS_H */
