/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When to watch, and for how long, so that what the hits cost stays within a
 * share of a CPU's time: of the busiest CPU, as a line is hit where it is hot.
 */
#ifndef LOCKLINE_WATCH_BUDGET_H
#define LOCKLINE_WATCH_BUDGET_H

#include <stdbool.h>
#include <linux/types.h>

#define WATCH_PERIOD_NS 100000000ull
#define WATCH_WINDOW_NS 1000000ull
#define WATCH_LEAST_NS  250000ull
#define WATCH_MOST_NS   90000000ull
/* Without a limit of cost: as often is what was seen collected.  A CPU fills its ring in 4 ms: two records in 4 us. */
#define WATCH_SLICE_NS  2000000ull
#define WATCH_HITS_MOST 400 /* of a CPU and place in one window: four times that fits a ring */

struct watch_budget {
	double share; /* of the CPU time; 0: unlimited */
	__u64 begin_ns;
	__u64 spent_ns; /* since begin_ns, on the CPU that had the most in each window */
};

/* What is kept for each line. */
struct watch_pace {
	__u64 window_ns;
};

void watch_budget_open(struct watch_budget *budget, double share, __u64 now_ns);
/* Hits of a CPU and place, each of this cost, after which a window is cut; 0: none. */
__u32 watch_budget_limit(const struct watch_budget *budget, __u64 hit_ns);
/* A window ended: what the CPU paid that had the most hits, setting it up included. */
void watch_budget_spend(struct watch_budget *budget, struct watch_pace *pace, __u64 cost_ns, bool cut);
/* When the next one may begin: jitter, from 0 to 255, so that it does not beat with what goes by a clock. */
__u64 watch_budget_next(const struct watch_budget *budget, __u64 last_begin_ns, __u64 now_ns, __u32 jitter);

#endif /* LOCKLINE_WATCH_BUDGET_H */
