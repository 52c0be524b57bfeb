// SPDX-License-Identifier: GPL-2.0-or-later
#include "helper/naming_objects.h"
#include "helper/naming_target.h"

/* Of one question after the other: 2 MiB of pages. */
static struct target_memory memory;

struct target_memory *naming_target_memory(const struct naming_memory *from)
{
	memory.fetch = from->fetch;
	memory.fetch_words = from->fetch_words;
	memory.context = from->context;
	target_begin(&memory);
	return &memory;
}

int naming_target_symbol(__u32 object, const struct naming_runtime *runtime, const char *name, __u64 *address)
{
	struct naming_answer found = {};
	int err = naming_object_find(object, runtime->file_offset, name, &found);

	*address = runtime->start + found.offset;
	return err;
}
