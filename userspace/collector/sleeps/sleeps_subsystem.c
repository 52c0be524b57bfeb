// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/clock.h"
#include "base/proc.h"
#include "sleeps/sleeps.h"
#include "sleeps/sleeps_subsystem.h"

/*
 * Threads of a control group are known to the programs alone.  Where ids are those of another namespace, /proc shows a
 * part of the machine.  -L and -S ask about one lock of the kernel.
 */
static bool is_wanted(const struct options *options)
{
	return options->command == COMMAND_RECORD && !options->cgroup && !options_name_container(options) &&
	       !options->locks && !options->callers && proc_has_kernel_ids();
}

static int open_sleeps(struct ground *ground, void **state)
{
	if (!is_wanted(ground->options))
		return 0;
	return sleeps_open((struct sleeps **)state, ground->options, ground->probes, ground->recording);
}

static int begin(void *state, struct ground *ground)
{
	sleeps_begin(state, now_ns());
	return 0;
}

static int look(void *state, struct ground *ground)
{
	sleeps_look(state, now_ns(), ground->last);
	return 0;
}

static int flush(void *state, struct ground *ground)
{
	return sleeps_flush(state);
}

static void close_sleeps(void *state)
{
	sleeps_close(state);
}

const struct subsystem sleeps_subsystem = {
	.name = "sleeps",
	.open = {[STAGE_LOADED] = open_sleeps},
	.at = {[MOMENT_START] = begin, [MOMENT_LONG] = look, [MOMENT_FLUSH] = flush},
	.close = close_sleeps,
};
