/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many waits get a stack: as many as cost little, on each CPU. */
#ifndef LOCKLINE_SAMPLING_H
#define LOCKLINE_SAMPLING_H

#include <linux/types.h>

#include "cli/options.h"
#include "probes/maps.h"

/* Of one CPU. */
struct sampling {
	__u64 begins;     /* at the last interval */
	__u32 per_second; /* stacks aimed at; 0: not known yet */
	__u32 credit;     /* towards the next token */
};

/* The period until the rate of waits is known. */
__u32 sampling_first_period(const struct options *options);
/* How many stacks a CPU may take before the first look at the rings. */
__u32 sampling_tokens(const struct options *options);
/* At the end of an interval: few stacks where waits are many, all of them where they are few; sampling: per CPU. */
void sampling_adapt(const struct maps *maps, const struct options *options, struct sampling *sampling,
		    __u64 interval_ns);
/* At each look at the rings: allows some more stacks. */
void sampling_refill(const struct maps *maps, const struct options *options, struct sampling *sampling);

#endif /* LOCKLINE_SAMPLING_H */
