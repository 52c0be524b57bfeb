/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What attached programs cost, by the kernel's own statistics. */
#ifndef LOCKLINE_PROBE_COST_H
#define LOCKLINE_PROBE_COST_H

#include <linux/types.h>

#include "probes/probes.h"

struct probe_cost {
	__u64 window_ns;
	__u64 runs;
	__u64 run_ns; /* in the programs alone, with the measurement's own 30 ns or so */
};

/* Of the programs of these signals (1 << enum signal), in a window of 100 ms.  Returns 0 or a negative errno. */
int probe_cost_measure(const struct probes *probes, __u64 signals, struct probe_cost *cost);

#endif /* LOCKLINE_PROBE_COST_H */
