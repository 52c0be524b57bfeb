/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory events of this machine's PMUs, by their own words in sysfs: what
 * perf mem would choose, and why not more.
 */
#ifndef LOCKLINE_PMU_H
#define LOCKLINE_PMU_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#define PMU_ROOT   "/sys/bus/event_source/devices"
#define PMU_EVENTS 8
#define PMU_TEXT   256

#define PMU_LDLAT 30 /* perf mem's, in cycles */

struct pmu_event {
	char pmu[32];
	char name[PMU_TEXT]; /* as perf spells it: cpu/mem-loads,ldlat=30/P */
	__u32 type;
	__u64 config[3]; /* attr.config, config1, config2 */
	int precise;     /* the most to ask for */
	int least;       /* and the least: without it there would be no data source */
	bool aux;        /* needs an event beside it, in whose group it is */
	__u64 aux_config[3];
	char cpus[PMU_TEXT]; /* list; "": all */
};

struct pmu_wish {
	const char *root;
	__u32 ldlat; /* 0: not said */
	bool l3_misses;
	const char *event; /* this one instead, as perf spells it; NULL */
};

struct pmu_plan {
	struct pmu_event events[PMU_EVENTS];
	int count;
	char trace[32];       /* the PMU that can be had by perf alone: arm_spe_0; "" */
	char note[PMU_TEXT];  /* what the events do not tell, or "" */
	char error[PMU_TEXT]; /* why the one that was wished for is none, or "" */
};

/* Never fails: a machine without such events has none. */
void pmu_plan_make(struct pmu_plan *plan, const struct pmu_wish *wish);
/* Their names, ", " between them, cut to size. */
void pmu_plan_names(const struct pmu_plan *plan, char *out, size_t size);

#endif /* LOCKLINE_PMU_H */
