/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What threads were seen to sleep in. */
#ifndef SLEEP_ROWS_H
#define SLEEP_ROWS_H

#include <stdbool.h>

#include <linux/types.h>

#define FUNCTION_NAME 64
#define COMM_NAME     32

/* Rows by process and function; what finds no place there is counted by function alone. */
#define MOST_ROWS        512
#define MOST_SHARED_ROWS 64

/* Threads of a process that were seen in a function of the kernel. */
struct sleep_row {
	__u32 tgid; /* 0: of processes that have no row */
	char comm[COMM_NAME];
	char function[FUNCTION_NAME]; /* "": on a CPU, or waits for one */
	__u64 seen;
};

struct sleep_rows {
	struct sleep_row rows[MOST_ROWS];
	struct sleep_row shared[MOST_SHARED_ROWS];
	int row_count, shared_count;
};

/* Counts a thread; true: its row is a new one of its process, which wants a name.  out: its row, NULL: none has a place. */
bool sleep_rows_count(struct sleep_rows *rows, __u32 tgid, const char *function, struct sleep_row **out);

#endif /* SLEEP_ROWS_H */
