/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One row, or a few, of the memory_* tables: what memory_write.c writes once and memory_update.c again and again. */
#ifndef LOCKLINE_MEMORY_ROWS_H
#define LOCKLINE_MEMORY_ROWS_H

#include "memory/memory_names.h"
#include "memory/memory_source.h"

#define MEMORY_SOURCE 1 /* id of the source, or of its first event */

/* Pages of lines that have several, by line. */
struct memory_pages {
	struct memory_page *list;
	__u32 count;
};

void memory_pages_sort(struct memory_pages *pages);

/* All these replace a row of the same id, and return 0 or a negative errno.  number: of the sums; id: in the recording. */
int memory_rows_source(const struct memory_write *write);
int memory_row_line(const struct memory_write *write, const struct memory_pages *pages, __u32 number, __s64 id,
		    const struct memory_name *name);
int memory_row_line_pages(const struct memory_write *write, const struct memory_pages *pages, __u32 number, __s64 id);
int memory_row_line_name(const struct memory_write *write, __s64 id, const struct memory_name *name);
int memory_row_code(const struct memory_write *write, __u32 number, const struct memory_name *name);
int memory_row_thread(const struct memory_write *write, __u32 number);
/* In the order of struct memory_rank. */
int memory_rows_accesses(const struct memory_write *write, __s64 line, const struct memory_access *accesses,
			 __u32 count);
/* Adds to what the lock's row has. */
int memory_row_wait(const struct memory_write *write, __s64 line, const struct memory_wait *wait);

#endif /* LOCKLINE_MEMORY_ROWS_H */
