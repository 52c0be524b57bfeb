/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of the code and the variables of the lines that are kept; each file is opened once. */
#ifndef LOCKLINE_MEMORY_NAMES_H
#define LOCKLINE_MEMORY_NAMES_H

#include "memory/memory_source.h"

struct memory_name {
	const char *symbol; /* "" if not known */
	__u64 offset;
	const char *line; /* "file:number", or "" */
};

struct memory_names {
	struct memory_name *variables; /* of the kept lines, in their order */
	struct memory_name *codes;     /* by number */
	char **texts;
	__u32 text_count;
};

#define MEMORY_LINE_TEXT 512

/* Of the kernel's symbols, for as long as these are there; false: not known, and the name is as it was. */
bool memory_name_kernel(const struct memory_write *write, __u64 address, __u32 object, bool variable,
			struct memory_name *name);
/* used: the codes that are wanted. */
int memory_names_find(struct memory_names *names, const struct memory_write *write, const struct memory_rank *rank,
		      const __u8 *used);
void memory_names_free(struct memory_names *names);

#endif /* LOCKLINE_MEMORY_NAMES_H */
