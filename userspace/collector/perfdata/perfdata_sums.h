/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an import has found so far, whoever decoded it. */
#ifndef LOCKLINE_PERFDATA_SUMS_H
#define LOCKLINE_PERFDATA_SUMS_H

#include <stddef.h>
#include <linux/types.h>

#include "memory/memory_lines.h"
#include "memory/memory_problems.h"
#include "memory/memory_tasks.h"
#include "cli/options.h"
#include "perfdata/perfdata_order.h"
#include "perfdata/perfdata_reader.h"

struct perfdata_beside;

/* What the samples of a source come to, whoever decoded it. */
struct perfdata_import {
	const struct options *options;
	struct memory_budget budget;
	struct memory_problems problems;
	struct memory_tasks tasks;
	struct memory_lines lines;
	struct perfdata_order order;
	struct perfdata_reader reader;
	struct perfdata_beside *beside; /* the thread that sums samples; NULL: whoever reads them does */
	bool alone;                     /* no such thread is to be started */
	__u64 samples;
	bool in_round; /* samples came after the last end of a round */
	__u64 first_ns;
	__u64 last_ns;
	__u64 lost_records;
	__u64 lost_samples;
	__u64 throttled;
	__u64 unknown_events;     /* samples of events that the file does not know */
	__u64 damaged;            /* samples shorter than their event says */
	bool by_perf;             /* perf script decoded it */
	char script_events[1024]; /* their names then, each with its end */
};

/* Some samples, in their turn: between them no name and no mapping changes. */
int perfdata_sums_samples(void *context, const struct memory_sample *samples, __u32 count);

#endif /* LOCKLINE_PERFDATA_SUMS_H */
