/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clocks, in nanoseconds. */
#ifndef LOCKLINE_CLOCK_H
#define LOCKLINE_CLOCK_H

#include <time.h>
#include <linux/types.h>

static inline __u64 clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* CLOCK_MONOTONIC, the clock that the probes read too. */
static inline __u64 now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline struct timespec timespec_of(__u64 ns)
{
	return (struct timespec){ns / 1000000000ull, ns % 1000000000ull};
}

#endif /* LOCKLINE_CLOCK_H */
