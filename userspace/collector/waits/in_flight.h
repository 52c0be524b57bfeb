/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The waits that last while the collector looks, in the arrays of what is in flight. */
#ifndef LOCKLINE_IN_FLIGHT_H
#define LOCKLINE_IN_FLIGHT_H

#include <linux/types.h>

#include "names/lock_names.h"
#include "probes/maps.h"

struct open_wait {
	__u64 lock;
	__u64 begin_ns;
	__u32 kind;
	__u32 tid;
	__u32 tgid;
	__u32 cpu;
	const struct wait_stack *stack; /* taken when it began, if it was sampled */
	int frames;
};

typedef int (*visit_open_wait)(void *data, const struct open_wait *wait);

/* Calls visit for each wait that began before before_ns, until it returns an error; the number of all waits in *open. */
int in_flight_visit(const struct maps *maps, const struct lock_names *names, __u64 before_ns, visit_open_wait visit,
		    void *data, __u64 *open);

/*
 * Frees the slots of threads that ended although the end of their wait was not seen, and counts those waits as
 * orphaned.  Each call looks up some of the older waits; *next is where the next one goes on, 0 at first.
 */
void in_flight_free_dead(const struct maps *maps, __u64 now_ns, __u32 *next);

/*
 * Lets threads that wait often keep their slots between waits, on CPUs that have no more left to give, as long as few
 * slots of all are kept.
 */
void in_flight_let_keep(const struct maps *maps);

#endif /* LOCKLINE_IN_FLIGHT_H */
