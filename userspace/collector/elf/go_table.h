/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Go's own table of functions (pclntab), which stripped programs have too: of Go 1.18 and later.  Runs in the helper;
 * reads nothing but the bytes that it is given, whatever they hold.
 */
#ifndef LOCKLINE_GO_TABLE_H
#define LOCKLINE_GO_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct go_table {
	const __u8 *bytes; /* all of it */
	size_t size;
	__u64 text; /* where the code begins; 0: the table does not say (since 1.26, and in code that can lie anywhere) */
	size_t text_at;  /* where in the table that is */
	size_t names;    /* where the names begin */
	size_t entries;  /* where the functions begin, as their places count too */
	__u64 functions; /* how many */
};

struct go_function {
	__u64 begin, end; /* behind text */
	const char *name; /* in the table, and ends there */
};

/* False: it is no such table. */
bool go_table_read(struct go_table *table, const void *bytes, size_t size);
/* The function that has this place, counted from text on; false: none. */
bool go_table_at(const struct go_table *table, __u64 place, struct go_function *function);
/* The function of this exact name; false: none. */
bool go_table_named(const struct go_table *table, const char *name, struct go_function *function);

#endif /* LOCKLINE_GO_TABLE_H */
