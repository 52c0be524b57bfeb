/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What lockline itself costs: the run time of its programs, measured by the
 * kernel's BPF statistics in short windows, and the collector's CPU and memory.
 *
 * Statistics make every BPF program on the machine read the clock twice, so
 * they are on for 100 ms at a time: right after the start, then with gaps that
 * grow to about 10 s.  They are switched on by a file descriptor, never by
 * sysctl: a collector that dies leaves nothing switched on.
 */
#ifndef LOCKLINE_OWN_COST_H
#define LOCKLINE_OWN_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct own_cost;

/* The fd stays the caller's and must outlive the own_cost. */
struct own_program {
	const char *name;
	const char *signal; /* as in struct probe */
	int fd;
};

/* One row of the table `program`; the strings are those of own_program. */
struct program_cost {
	const char *name;
	const char *signal;
	__u64 measured_runs;    /* in the windows alone */
	__u64 measured_ns;      /* run time of those runs */
	__u64 recursion_misses; /* since own_cost_open(); exact */
};

/* The collector since its start; COMMAND and its children are not in it. */
struct own_usage {
	__u64 user_ns;
	__u64 system_ns;
	__u64 peak_rss_bytes;
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u64 major_faults;
};

/*
 * Call right after attach; opens the first window.  now_ns is CLOCK_MONOTONIC.
 * Succeeds without the right to statistics: measured_* then stay 0 and
 * own_cost_unavailable() says why.
 * often: half of the time is measured, for a cost that is held against a limit.
 */
int own_cost_open(struct own_cost **out, const struct own_program *programs, size_t count, __u64 now_ns, bool often);
void own_cost_close(struct own_cost *cost);

/* To be called from the poll loop; returns the time at which it has something to do next. */
__u64 own_cost_tick(struct own_cost *cost, __u64 now_ns);

/* Closes a window that is open and allows no further one: call before detaching. */
void own_cost_stop(struct own_cost *cost, __u64 now_ns);

size_t own_cost_count(const struct own_cost *cost);
/* Figures up to now, a window that is open included.  Negative errno if the kernel refuses the program's info. */
int own_cost_program(struct own_cost *cost, size_t index, struct program_cost *out);
__u64 own_cost_window_ns(const struct own_cost *cost);         /* sum of the closed windows */
__u64 own_cost_windows(const struct own_cost *cost);           /* closed windows */
const char *own_cost_unavailable(const struct own_cost *cost); /* NULL: statistics can be had */

/* Run time of all programs in elapsed_ns, by the windows so far, the open one too. */
__u64 own_cost_estimate(const struct own_cost *cost, __u64 now_ns, __u64 elapsed_ns);

int own_cost_usage(struct own_usage *out);

#endif /* LOCKLINE_OWN_COST_H */
