/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The PMU's memory events, opened on each CPU, with the program that takes their samples.  Closed, or killed, they are gone. */
#ifndef LOCKLINE_LIVE_EVENTS_H
#define LOCKLINE_LIVE_EVENTS_H

#include <stdbool.h>
#include <linux/types.h>

#include "base/online_cpus.h"
#include "cli/options.h"
#include "kernel/pmu.h"

/* An event's settings that its PMU took, for its other CPUs. */
struct live_settings {
	bool known;
	bool exclude_guest;
	int precise;
};

struct live_event {
	__u32 cpu;
	int fd;
	int leader; /* of its group; -1: it has none */
	void *ring; /* of perf's records, none of them samples; NULL: not available */
};

struct live_events {
	const struct pmu_plan *plan;
	const struct id_list *wanted; /* CPUs; no ids: all */
	struct online_cpus online;
	struct live_settings settings[PMU_EVENTS];
	int program;
	__u32 cpus;              /* one more than the highest */
	struct live_event *list; /* of CPUs that are online */
	int count;
	__u64 gone_enabled_ns; /* of events whose CPU went offline */
	__u64 gone_running_ns;
	__u32 rate;            /* as it was asked for, or as the kernel allows */
	__u64 throttled;       /* times that the kernel stopped an event until its next tick */
	__u64 enabled_ns;      /* over all events and CPUs */
	__u64 running_ns;      /* of it, on a counter of the PMU */
	char failed[PMU_TEXT]; /* the first event that could not be opened, and why; or "" */
};

/* On these CPUs (none: all); plan and cpus are kept.  Negative errno if no event can be opened, with failed. */
int live_events_open(struct live_events *events, const struct pmu_plan *plan, __u32 rate, const struct id_list *cpus,
		     __u32 all_cpus, int program);
/* Opens those of CPUs that have come, closes those of CPUs that have gone, and reads what the kernel says beside samples. */
void live_events_drain(struct live_events *events);
/* Reads the times. */
void live_events_times(struct live_events *events);
/* Ends the sampling. */
void live_events_stop(struct live_events *events);
void live_events_close(struct live_events *events);

#endif /* LOCKLINE_LIVE_EVENTS_H */
