/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tables of memory_write.h while the sums still grow: each write brings the
 * rows to what the sums are when it begins, and touches those alone that
 * changed.  Lines are numbered as they were met, so that their rows stay.
 */
#ifndef LOCKLINE_MEMORY_UPDATE_H
#define LOCKLINE_MEMORY_UPDATE_H

#include "memory/memory_write.h"

/* What the recording has by now; all zero: nothing. */
struct memory_update {
	__u32 *samples; /* by line: in its rows; 0: it has none */
	__u8 *lines;    /* by number: how far the row is, as of codes and threads */
	__u8 *codes;
	__u8 *threads;
	__u32 line_count; /* places of these */
	__u32 code_count;
	__u32 thread_count;
};

/* How a write goes about it. */
struct memory_turn {
	int (*pause)(void *context); /* called every few rows; samples may be added meanwhile; NULL: no pauses */
	void *context;
	bool last; /* rows that nothing refers to go, and all is named however long that takes */
};

/* In one transaction of the caller's.  To be freed by memory_rank_free() in any case. */
int memory_update_write(struct memory_update *update, const struct memory_write *write, const struct memory_turn *turn,
			struct memory_rank *rank);
void memory_update_free(struct memory_update *update);

#endif /* LOCKLINE_MEMORY_UPDATE_H */
