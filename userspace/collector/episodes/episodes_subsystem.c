// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>

#include "base/clock.h"
#include "bpf/lockline.h"
#include "episodes/context_probes.h"
#include "episodes/episodes_subsystem.h"
#include "episodes/flight.h"
#include "lockline.skel.h"
#include "probes/probes.h"

#define MIN_RING_CONTEXT 1024
#define MAX_RING_CONTEXT 65536

static __u32 record_bytes(const struct sizing *s)
{
	return sizeof(struct context_record);
}

static void add_bytes(struct sizing *s)
{
	s->map_bytes +=
		s->cpus * (sizeof(struct context_state) + (__u64)s->ring_context * sizeof(struct context_record));
}

static const struct size_part sizes = {
	.sized = {{offsetof(struct sizing, ring_context), MIN_RING_CONTEXT, MAX_RING_CONTEXT, true, record_bytes}},
	.add = add_bytes,
};

static bool sized(const struct options *options, const struct plan *plan)
{
	return options->episodes;
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	__u32 records = ground->sizing->ring_context;

	bpf->rodata->context_mask = records ? records - 1 : 0;
	bpf->rodata->context_cpus = ground->sizing->cpus;
	return 0;
}

/* The flight itself is the session's: it is open already, for its trigger. */
static int open_episodes(struct ground *ground, void **state)
{
	struct flight *flight = *state = ground->flight;
	int err = 0;

	if (ground->options->episodes)
		err = episodes_open(&flight->episodes, &ground->probes->maps, ground->recording, ground->holders,
				    ground->stacks, ground->names, ground->options->threshold_ns);
	if (!err && flight_listens(flight))
		events_listen(ground->events, flight_on_wait, flight);
	return err;
}

static int drain(void *state, struct ground *ground)
{
	return flight_drained(state, now_ns()) ?: flight_look(state, ground->events, now_ns());
}

static int end_interval(void *state, struct ground *ground)
{
	return flight_end_interval(state, now_ns(), ground->last);
}

static void close_episodes(void *state)
{
	flight_close(state);
}

const struct subsystem episodes_subsystem = {
	.name = "episodes",
	.sizes = &sizes,
	.sized = sized,
	.choices = context_choices,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_episodes},
	.at = {[MOMENT_DRAIN] = drain, [MOMENT_WAITS] = end_interval},
	.close = close_episodes,
};
