// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>

#include "perfdata/c2c_record.h"
#include "perfdata/c2c_subsystem.h"

static int open_c2c(struct ground *ground, void **state)
{
	if (!ground->options->c2c)
		return 0;
	return c2c_record_open((struct c2c_record **)state, ground->options, ground->plan, ground->recording);
}

static int start(void *state, struct ground *ground)
{
	return c2c_record_begin(state);
}

static int finish(void *state, struct ground *ground)
{
	return c2c_record_finish(state);
}

static void end(void *state)
{
	c2c_record_end(state);
}

static void close_c2c(void *state)
{
	c2c_record_close(state);
}

const struct subsystem c2c_subsystem = {
	.name = "c2c",
	.open = {[STAGE_PREPARED] = open_c2c},
	.at = {[MOMENT_START] = start, [MOMENT_FINISH] = finish},
	.end = end,
	.close = close_c2c,
};
