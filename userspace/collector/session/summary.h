/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recording says of itself: host and options, the plan, losses, own cost. */
#ifndef LOCKLINE_SUMMARY_H
#define LOCKLINE_SUMMARY_H

#include <stdbool.h>
#include <linux/types.h>

#include "episodes/episodes.h"
#include "containers/cgroups.h"
#include "naming/naming_queue.h"
#include "waits/events.h"
#include "holders/holders.h"
#include "waits/locks.h"
#include "probes/maps.h"
#include "names/lock_names.h"
#include "cli/options.h"
#include "probes/own_cost.h"
#include "kernel/plan.h"
#include "probes/probes.h"
#include "recording/recording.h"

struct summary {
	struct recording *recording;
	const struct maps *maps;
	const struct probes *probes;
	struct own_cost *own_cost;
	const struct lock_names *names;
	const struct symbols *symbols;
	const struct cgroup_paths *cgroups;
	struct naming_queue *naming; /* NULL: nothing of user space is named */
	const struct locks *locks;
	const struct event_losses *losses;
	const struct holders *holders;   /* NULL without --holders */
	const struct episodes *episodes; /* NULL without --episodes */
	__u64 open_waits;
	__u64 now_ns;
	bool last;
};

/* At the start: host, plan, options, kinds. */
int summary_begin(struct recording *recording, const struct plan *plan, const struct options *options,
		  const struct sizing *sizing, __u64 begin_ns);
/* At the end of each interval: losses, begins, programs, cost. */
int summary_write(const struct summary *summary);
/* One line for the person who waits; path: NULL if the recording is not kept. */
void summary_print(const struct maps *maps, __u64 length_ns, const char *path);

#endif /* LOCKLINE_SUMMARY_H */
