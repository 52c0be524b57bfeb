// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/watch_budget.h"

void watch_budget_open(struct watch_budget *budget, double share, __u64 now_ns)
{
	*budget = (struct watch_budget){.share = share, .begin_ns = now_ns};
}

/* What the hits of one period may cost. */
static double period_ns(const struct watch_budget *budget)
{
	return budget->share * WATCH_PERIOD_NS;
}

__u32 watch_budget_limit(const struct watch_budget *budget, __u64 hit_ns)
{
	double hits;

	if (!budget->share)
		return 0;
	hits = period_ns(budget) / (hit_ns ?: 1000);
	return hits < 8 ? 8 : hits > WATCH_HITS_MOST ? WATCH_HITS_MOST : hits;
}

void watch_budget_spend(struct watch_budget *budget, struct watch_pace *pace, __u64 cost_ns, bool cut)
{
	double cost = cost_ns, wanted = period_ns(budget);
	__u64 window = pace->window_ns;

	budget->spent_ns += cost_ns;
	if (!budget->share)
		return;
	/* Towards the length that uses the budget, by no more than a factor of two at a time: the next moment may be another. */
	if (cut || cost > wanted)
		window /= 2;
	else if (2 * cost < wanted)
		window *= 2;
	pace->window_ns = window < WATCH_LEAST_NS ? WATCH_LEAST_NS : window > WATCH_MOST_NS ? WATCH_MOST_NS : window;
}

__u64 watch_budget_next(const struct watch_budget *budget, __u64 last_begin_ns, __u64 now_ns, __u32 jitter)
{
	__u64 period = WATCH_PERIOD_NS / 4 * 3 + WATCH_PERIOD_NS / 2 * jitter / 256, next = last_begin_ns + period;
	__u64 paid;

	if (!budget->share)
		return now_ns;
	/* Until the time that has passed has paid for what was spent. */
	paid = budget->begin_ns + (__u64)(budget->spent_ns / budget->share);
	return next > paid ? next : paid;
}
