/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recording holds while it goes on, and its loop: rings, intervals, the end. */
#ifndef LOCKLINE_SESSION_RUN_H
#define LOCKLINE_SESSION_RUN_H

#include "filter/lock_filter.h"
#include "episodes/flight.h"
#include "names/btf_members.h"
#include "names/lock_names.h"
#include "names/symbols.h"
#include "naming/naming_queue.h"
#include "probes/probes.h"
#include "probes/sampling.h"
#include "recording/recording_interval.h"
#include "session/progress.h"
#include "session/self_check.h"
#include "session/subsystems.h"
#include "session/workload.h"
#include "waits/stacks.h"

struct session {
	const struct options *options;
	struct plan plan;
	struct sizing sizing;
	struct cgroup_target cgroup;
	int hierarchy;
	struct lock_filter lock_filter;
	struct symbols *symbols;
	struct types *types;         /* the kernel's */
	struct naming_queue *naming; /* NULL: nothing of user space is named */
	struct lock_names *names;
	struct cgroup_paths *cgroups;
	struct containers *containers;
	struct stacks stacks;
	struct monitors monitors;
	struct recording *recording;
	struct keeper keeper;
	struct probes probes;
	struct flight flight;
	struct self_check *self_check; /* NULL without --self-check */
	struct own_cost *own_cost;
	struct workload workload;
	struct progress progress;
	struct ground ground; /* what the subsystems stand on */
	struct opened opened; /* and which are of this recording */
	int signals;
	bool told; /* that it is over, and the file system does not answer */
	struct recording_interval_end interval_end;
	__s64 interval;
	__u64 interval_begin_ns;
	__u64 end_ns;       /* of -d; ~0: none */
	__u64 cpu_begin_ns; /* the collector's CPU time when it began to record */
	__u64 next_drain_ns;
	__u64 next_hurry_ns;
	__u64 watchdog_ns; /* how often systemd hears that it lives; 0: never */
	__u64 next_alive_ns;
	struct sampling *sampling; /* per CPU */
	__u64 ending_ns;           /* what ending the last interval took */
	__u64 ending_cpu_ns;       /* the most CPU time that ending one took */
};

/* What the figures of this moment belong to; last: nothing is measured after it. */
void session_set_interval(struct session *session, bool last);

/* Reads the rings in the midst of what takes long; context: the session. */
int session_drain_meanwhile(void *context);

/* Records until the end: -d, a signal, COMMAND's end, --max-cost, what --until or --flight waits for. */
int session_run(struct session *session);

/* Nothing is measured from then on, and nothing stays attached.  Leaves the recording alone. */
void session_stop_measuring(struct session *session);

/* Writes what is counted since the last interval. */
int session_end_interval(struct session *session, bool last);

#endif /* LOCKLINE_SESSION_RUN_H */
