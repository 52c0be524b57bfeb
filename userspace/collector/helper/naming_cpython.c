// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "base/clock.h"
#include "helper/naming_cpython.h"

#define INTERPRETERS 8

/* All 0: free. */
static struct cpython_interpreter interpreters[INTERPRETERS];

static struct cpython_known known;

static int find_interpreter(__u32 object, const struct naming_runtime *asked, const struct cpython_interpreter **out)
{
	struct cpython_interpreter *place = &interpreters[asked->number % INTERPRETERS];
	int err = 0;

	if (!asked->number)
		return -EINVAL;
	if (place->number != asked->number) {
		place->number = 0;
		err = naming_target_symbol(object, asked, "_PyRuntime", &place->runtime)
			      ?: naming_target_symbol(object, asked, "PyCode_Type", &place->code_type);
		if (!err)
			place->number = asked->number;
	}
	*out = place;
	return err;
}

int naming_cpython_frames(__u32 interpreter, const struct naming_memory *asked, const struct cpython_thread *thread,
			  struct cpython_frames *frames)
{
	const struct cpython_interpreter *found;
	int err = find_interpreter(interpreter, asked->runtime, &found);

	if (err)
		return err;
	return cpython_frames_read(naming_target_memory(asked), &known, now_ns(), found, thread, frames);
}
