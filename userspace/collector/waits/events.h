/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Drains the rings of wait events: samples, outliers, waiters, stacks; and looks at what is in flight. */
#ifndef LOCKLINE_EVENTS_H
#define LOCKLINE_EVENTS_H

#include <linux/types.h>

#include "base/ring.h"
#include "containers/cgroups.h"
#include "containers/containers.h"
#include "waits/locks.h"
#include "probes/maps.h"
#include "waits/stacks.h"
#include "waits/totals.h"

struct events;

/* A wait over the threshold, or one that still lasts. */
struct long_wait {
	__s64 outlier; /* id in the recording; 0: it still lasts */
	__u64 begin_ns;
	__u64 wait_ns; /* so far */
	__u64 lock_address;
	__s64 lock; /* id in the recording */
	__u32 kind;
	__u32 tid;
	__u32 tgid;
	__s64 waiter; /* id in the recording; 0: not known */
	__u32 cpu;
	__u32 begin_cpu;
	int policy; /* -1: not known */
	int priority;
	__s64 stack;
	const __u64 *frames; /* of the kernel; valid during the call alone */
	int frame_count;
};

typedef int (*on_wait)(void *data, const struct long_wait *wait);

struct event_losses {
	struct ring_losses ring;
	__u64 not_written;      /* samples; their waits are in the totals */
	__u64 outliers_dropped; /* outliers beyond what an interval keeps; in the totals all the same */
};

int events_open(struct events **out, const struct maps *maps, struct recording *recording, struct locks *locks,
		struct totals *totals, const struct stacks *stacks, struct cgroup_paths *cgroups,
		struct containers *containers, const struct lock_names *names);
void events_close(struct events *events);
/* Calls hear for each long wait as it is read, and for those that last when an interval ends. */
void events_listen(struct events *events, on_wait on_wait, void *data);
/* Reads all rings; waits go to the interval with that id. */
int events_drain(struct events *events, __s64 interval);
/* Copies what the rings hold; events_drain() reads it later. */
void events_put_aside(struct events *events);
/* The interval is over: keeps its longest outliers, replaces the waits in progress; *open counts those. */
int events_end_interval(struct events *events, __s64 interval, __u64 now_ns, __u64 *open);
/* Calls hear for each wait that lasts for longer than age_ns (1 ms at least); nothing is stored. */
int events_look(struct events *events, __u64 now_ns, __u64 age_ns);
const struct event_losses *events_losses(const struct events *events);

#endif /* LOCKLINE_EVENTS_H */
