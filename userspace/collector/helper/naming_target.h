/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The process that a request is about: its memory, and where it has what its run time's object names. */
#ifndef LOCKLINE_NAMING_TARGET_H
#define LOCKLINE_NAMING_TARGET_H

#include "base/target_memory.h"
#include "helper/naming_protocol.h"

/* How the helper gets that memory: negative errno each. */
struct naming_memory {
	const struct naming_runtime *runtime;
	int (*fetch)(void *context, __u64 address, __u8 *out);
	int (*fetch_words)(void *context, const __u64 *addresses, __u32 count, __u64 *out);
	void *context;
};

/* Of this question, until the next one: all that was read before is forgotten. */
struct target_memory *naming_target_memory(const struct naming_memory *from);
/* The address that a symbol of the object has in the process; -ENOENT. */
int naming_target_symbol(__u32 object, const struct naming_runtime *runtime, const char *name, __u64 *address);

#endif /* LOCKLINE_NAMING_TARGET_H */
