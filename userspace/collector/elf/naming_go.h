/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of a Go program, stripped or not, by its own table: see go_table.h.  Runs in the helper. */
#ifndef LOCKLINE_NAMING_GO_H
#define LOCKLINE_NAMING_GO_H

#include <stdbool.h>
#include <libelf.h>
#include <linux/types.h>

#include "elf/go_table.h"

struct naming_go {
	struct go_table table;
	__u64 text; /* the code's begin, as the file counts addresses */
	bool known; /* it is a Go program */
};

/* Lives as long as the file does. */
void naming_go_open(struct naming_go *go, Elf *file);
/* The name, NULL if there is none, and how far behind its begin the address lies. */
const char *naming_go_find(const struct naming_go *go, __u64 address, __u64 *offset);
/* Where a function begins; false: it has none of this name. */
bool naming_go_address(const struct naming_go *go, const char *name, __u64 *address);

#endif /* LOCKLINE_NAMING_GO_H */
