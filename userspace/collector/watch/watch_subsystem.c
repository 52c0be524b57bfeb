// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>

#include "base/clock.h"
#include "watch/watch.h"
#include "watch/watch_subsystem.h"

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	return watch_resize(bpf, ground->sizing->cpus, ground->options->command == COMMAND_WATCH);
}

static int open_watch(struct ground *ground, void **state)
{
	const struct watch_base base = {
		.options = ground->options,
		.probes = ground->probes,
		.recording = ground->recording,
		.locks = ground->locks,
		.names = ground->names,
		.symbols = ground->symbols,
		.cpus = ground->sizing->cpus,
	};

	return ground->options->command == COMMAND_WATCH ? watch_open((struct watch **)state, &base) : 0;
}

static int start(void *state, struct ground *ground)
{
	return watch_begin(state, ground->begin_ns);
}

static int drain(void *state, struct ground *ground)
{
	return watch_drain(state);
}

static int flush(void *state, struct ground *ground)
{
	return watch_flush(state, now_ns());
}

static int print(void *state, struct ground *ground)
{
	watch_print(state);
	return 0;
}

static void end(void *state)
{
	watch_end(state);
}

static void close_watch(void *state)
{
	watch_close(state);
}

const struct subsystem watch_subsystem = {
	.name = "watch",
	.configure = configure,
	.open = {[STAGE_ATTACHED] = open_watch},
	.at = {[MOMENT_START] = start, [MOMENT_DRAIN] = drain, [MOMENT_FLUSH] = flush, [MOMENT_PRINT] = print},
	.end = end,
	.close = close_watch,
};
