/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The observer of --self-check: a thread on each CPU that sleeps until a given
 * time and notes how late it wakes, as cyclictest does.  Interrupts or preemption
 * kept off make it late, whoever does that; it passes none of lockline's probes
 * but those of the scheduler, and costs the same whatever is attached.
 */
#ifndef LOCKLINE_OBSERVER_H
#define LOCKLINE_OBSERVER_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/lockline.h"

/* cyclictest -i2000: a stall lasts until an interrupt at times, so that a denser one would end it itself. */
#define OBSERVER_PERIOD_NS 2000000ull

struct observer;

/* Sums over the threads, since the start. */
struct observed {
	__u64 wakeups;
	__u64 histogram[HISTOGRAM_BUCKETS];
};

/* Signals must be blocked already.  At least one CPU, or a negative errno. */
int observer_start(struct observer **out);
void observer_stop(struct observer *observer);
void observer_read(const struct observer *observer, struct observed *out);
/* The latest wake-up since the last call. */
__u64 observer_take_max(struct observer *observer);
__u32 observer_threads(const struct observer *observer);
/* Of all threads; else they are late for every task that runs before them. */
bool observer_is_real_time(const struct observer *observer);

#endif /* LOCKLINE_OBSERVER_H */
