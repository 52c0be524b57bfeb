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

#include "cli/options.h"

#define WATCH_SLOTS      4 /* at once: debug registers of a CPU */
#define WATCH_SLOT_BYTES 8
#define WATCH_PLACES     (64 / WATCH_SLOT_BYTES)

/*
 * Two watchpoints at one place, to distinguish reads from writes.  x86
 * has none for reads alone: there each access hits the one, and a write both,
 * in one exception.  arm64 has them; each access hits one.
 */
#ifdef __aarch64__
#define WATCH_WRITE_HITS_BOTH false
#else
#define WATCH_WRITE_HITS_BOTH true
#endif

/* What runs behind them. */
struct watch_programs {
	int hit;
	int write; /* behind those for writes alone; negative: there is none */
};

/* Of a hit, in ns. */
struct watch_cost {
	__u64 hit_ns;
	__u64 write_ns; /* of a write at a place that has two watchpoints; 0: the machine does not tell by them */
};

struct watch_cpu_events {
	__u32 cpu;
	int fds[WATCH_SLOTS]; /* -1: none.  The first leads the group; or of two at a place, that for reads. */
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
	struct watch_programs programs;
	int keeper;   /* an event that never counts: the first one and the last one of a kernel are dear */
	int slots;    /* in use */
	__u32 places; /* mask of the line's eighths that are watched */
	bool typed;   /* two at each */
	__u32 limit;
};

/* wanted: no ids: all; it must outlive the events. */
int watch_events_open(struct watch_events *events, const struct watch_programs *programs, const struct id_list *wanted);
void watch_events_close(struct watch_events *events);
/* Whether CPUs came or went since the opening, or the last watch_events_renew(). */
bool watch_events_outdated(struct watch_events *events);
/* Takes those that are online now; no watchpoint is left. */
int watch_events_renew(struct watch_events *events);
/* How many watchpoints can be set at once, up to WATCH_SLOTS; a negative errno of the kernel if none. */
int watch_events_free(struct watch_events *events, __u64 line);
/*
 * Sets watchpoints that do not count yet; typed: two at each place.  limit: hits
 * of a CPU and place after which the kernel switches that one off by itself; 0: none.
 */
int watch_events_set(struct watch_events *events, __u64 line, __u32 places, bool typed, __u32 limit);
int watch_events_enable(struct watch_events *events);
void watch_events_disable(struct watch_events *events);
/* Reads the counts; the sum of all CPUs, a write that hits two as one. */
__u64 watch_events_count(struct watch_events *events);
void watch_events_clear(struct watch_events *events);

/*
 * What a hit costs here: of an instruction that writes memory of our own; and
 * whether two watchpoints at a place tell it from one that reads.  -EDEADLK:
 * the machine does not get past a watched instruction; -ETIMEDOUT: the process
 * that tries it did not get to run.
 */
int watch_hit_cost(const struct watch_programs *programs, struct watch_cost *cost);

#endif /* LOCKLINE_WATCH_EVENTS_H */
