/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many waits get a stack: as many as cost little, on each CPU. */
#ifndef LOCKLINE_SAMPLING_H
#define LOCKLINE_SAMPLING_H

#include <linux/types.h>

#include "cli/options.h"
#include "probes/maps.h"

/* The period until the rate of waits is known. */
__u32 sampling_first_period(const struct options *options);
/* How many stacks may be taken between two looks at the rings. */
__u32 sampling_tokens(const struct options *options);
/* Few stacks where waits are many, all of them where they are few; begins: per CPU, those at the last call. */
void sampling_adapt(const struct maps *maps, const struct options *options, __u64 *begins, __u64 interval_ns);
/* Allows some more stacks. */
void sampling_refill(const struct maps *maps, const struct options *options);

#endif /* LOCKLINE_SAMPLING_H */
