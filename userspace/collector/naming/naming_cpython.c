// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "base/clock.h"
#include "naming/naming_cpython.h"
#include "naming/naming_objects.h"

#define INTERPRETERS 8

/* All 0: free. */
static struct cpython_interpreter interpreters[INTERPRETERS];

static struct hotspot_memory memory;
static struct cpython_known known;

static int find_symbol(__u32 object, const struct naming_jvm *asked, const char *name, __u64 *out)
{
	struct naming_answer found = {};
	int err = naming_object_find(object, asked->file_offset, name, &found);

	*out = asked->start + found.offset;
	return err;
}

static int find_interpreter(__u32 object, const struct naming_jvm *asked, const struct cpython_interpreter **out)
{
	struct cpython_interpreter *place = &interpreters[asked->number % INTERPRETERS];
	int err = 0;

	if (!asked->number)
		return -EINVAL;
	if (place->number != asked->number) {
		place->number = 0;
		err = find_symbol(object, asked, "_PyRuntime", &place->runtime)
			      ?: find_symbol(object, asked, "PyCode_Type", &place->code_type);
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
	int err = find_interpreter(interpreter, asked->jvm, &found);

	if (err)
		return err;
	memory.fetch = asked->fetch;
	memory.fetch_words = asked->fetch_words;
	memory.context = asked->context;
	hotspot_memory_begin(&memory);
	return cpython_frames_read(&memory, &known, now_ns(), found, thread, frames);
}
