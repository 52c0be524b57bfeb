// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>

#include "bpf/memory.h"
#include "memory/live_memory.h"
#include "memory/memory_subsystem.h"

static __u32 record_bytes(const struct sizing *s)
{
	return sizeof(struct memory_record);
}

static void add_bytes(struct sizing *s)
{
	s->map_bytes += s->cpus * (sizeof(struct memory_state) + (__u64)s->ring_samples * sizeof(struct memory_record));
}

static const struct size_part sizes = {
	.sized = {{offsetof(struct sizing, ring_samples), MEMORY_RING_SAMPLES, MEMORY_RING_SAMPLES, true,
		   record_bytes}},
	.add = add_bytes,
};

static bool sized(const struct options *options, const struct plan *plan)
{
	return plan ? plan->hitm : options->hitm;
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	return live_memory_resize(bpf, ground->sizing->cpus, ground->plan->hitm);
}

static int open_memory(struct ground *ground, void **state)
{
	return live_memory_open((struct live_memory **)state, ground->options, ground->plan, ground->probes,
				ground->recording, ground->locks, ground->symbols);
}

static int drain(void *state, struct ground *ground)
{
	return live_memory_drain(state);
}

static int write_long(void *state, struct ground *ground)
{
	return live_memory_write(state, ground->pause, ground->pause_context, ground->last);
}

static int committed(void *state, struct ground *ground)
{
	live_memory_committed(state, ground->commit_ns);
	return 0;
}

static void end(void *state)
{
	live_memory_stop(state);
}

static void close_memory(void *state)
{
	live_memory_close(state);
}

const struct subsystem memory_subsystem = {
	.name = "memory",
	.sizes = &sizes,
	.sized = sized,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_memory},
	.at = {[MOMENT_DRAIN] = drain, [MOMENT_ASIDE] = drain, [MOMENT_LONG] = write_long, [MOMENT_COMMIT] = committed},
	.end = end,
	.close = close_memory,
};
