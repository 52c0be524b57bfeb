// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "clocksource/clock_reads.h"
#include "clocksource/clocksource_subsystem.h"
#include "lockline.skel.h"
#include "probes/probes.h"

/* Exits before entries: a call whose end was not seen would keep its slot. */
static int choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
	const char *clock = plan->clock_kprobe ? NULL : plan->clock_read;
	const char *clock_kprobe = plan->clock_kprobe ? plan->clock_read : NULL;
	const struct choice table[] = {
		{bpf->progs.clock_read_leave, clock != NULL, SIGNAL_CLOCK_READS, clock},
		{bpf->progs.clock_kprobe_leave, clock_kprobe != NULL, SIGNAL_CLOCK_READS, clock_kprobe},
		{bpf->progs.clock_read_enter, clock != NULL, SIGNAL_CLOCK_READS, clock},
		{bpf->progs.clock_kprobe_enter, clock_kprobe != NULL, SIGNAL_CLOCK_READS, clock_kprobe},
	};

	memcpy(choices + count, table, sizeof(table));
	return count + sizeof(table) / sizeof(table[0]);
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	return clock_reads_resize(bpf, ground->sizing->cpus, ground->plan->clock_read);
}

static int open_reads(struct ground *ground, void **state)
{
	if (!ground->plan->clock_read)
		return 0;
	return clock_reads_open((struct clock_reads **)state, ground->probes->bpf, ground->sizing->cpus,
				ground->recording, ground->stacks, ground->plan->clock_read);
}

static int drain(void *state, struct ground *ground)
{
	return clock_reads_drain(state);
}

static int put_aside(void *state, struct ground *ground)
{
	clock_reads_put_aside(state);
	return 0;
}

static int flush(void *state, struct ground *ground)
{
	return clock_reads_flush(state);
}

static void close_reads(void *state)
{
	clock_reads_close(state);
}

const struct subsystem clocksource_subsystem = {
	.name = "clocksource",
	.choices = choices,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_reads},
	.at = {[MOMENT_DRAIN] = drain, [MOMENT_ASIDE] = put_aside, [MOMENT_FLUSH] = flush},
	.close = close_reads,
};
