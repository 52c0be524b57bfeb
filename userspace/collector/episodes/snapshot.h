/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What can be found out of a wait while it lasts, and what its stack says of interrupts. */
#ifndef LOCKLINE_SNAPSHOT_H
#define LOCKLINE_SNAPSHOT_H

#include <linux/types.h>

#include "waits/events.h"
#include "names/lock_names.h"
#include "waits/stacks.h"

/* The task that has the lock now. */
struct holder_now {
	__u32 tid; /* 0: not known */
	__u32 tgid;
	char comm[17];
	char state[2]; /* as in /proc/PID/stat */
	__s64 stack;   /* id in the recording; 0: none to be had */
	const char *from;
};

/* Looks at the lock's owner field, then at /proc.  Spinlocks do not say who holds them: see holder_known(). */
int holder_now(const struct lock_names *names, struct stacks *stacks, const struct long_wait *wait,
	       struct holder_now *holder);
/* The same of a task that is known to have the lock; from: how. */
int holder_known(struct stacks *stacks, __u32 tid, const char *from, struct holder_now *holder);

/*
 * "on", "off" or "unknown" for the CPU of a waiter, from the kind of its lock and the functions of its stack, leaf first; never more than
 * inferred: *from says from what.
 */
const char *interrupts_inferred(__u32 kind, const char *const *functions, int count, const char **from);

#endif /* LOCKLINE_SNAPSHOT_H */
