/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rings of turns that wake the collector: a program tells it each time that a quarter of its CPU's ring was written.
 * So a ring may fill in 10 ms, and nobody looks at it 100 times a second for that.
 */
#ifndef LOCKLINE_HOLDER_WAKES_H
#define LOCKLINE_HOLDER_WAKES_H

#include <linux/types.h>

#include "base/online_cpus.h"

/* Parts of a ring, at each of which the collector is woken. */
#define WAKE_PARTS 4

struct holder_wakes {
	int *events; /* by CPU; -1: none */
	void **pages;
	__u32 cpus;
	int map;
	struct online_cpus online;
	int fd; /* readable when a part was written; -1: not every CPU can wake us */
};

/* Not open, or no longer: it may be cleared and closed. */
#define HOLDER_WAKES_CLOSED ((struct holder_wakes){.fd = -1, .online.fd = -1})

/* map: of struct holding_wakes of the programs.  Negative errno: out of memory; where it cannot be done, fd stays -1. */
int holder_wakes_open(struct holder_wakes *wakes, int map, __u32 cpus);
/* What was told until now is known: fd is readable at the next part.  CPUs that came since can wake us from now on. */
void holder_wakes_clear(struct holder_wakes *wakes);
void holder_wakes_close(struct holder_wakes *wakes);

#endif /* LOCKLINE_HOLDER_WAKES_H */
