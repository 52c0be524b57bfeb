/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The programs' rows of futexes: whose they are, what they add up to, and how idle ones are taken back. */
#ifndef LOCKLINE_FUTEX_ROWS_H
#define LOCKLINE_FUTEX_ROWS_H

#include "futex/futexes_known.h"

/* What the collector knows of a row. */
struct futex_row_seen {
	struct futex *futex; /* NULL: none, or not met yet */
	__u64 calls;         /* to wait and to wake, at the last flush */
	__u32 next_row;      /* number + 1 of another row of the futex */
	__u8 idle;           /* flushes without a call */
	bool marked;         /* no program finds it any more */
};

struct futex_rows {
	struct futexes_known *known;
	struct futex_row *rows; /* per CPU; the last one of each has the calls that found none */
	struct futex_row_seen *seen;
	__u32 cpus;
	__u32 per_cpu;
	__u32 marked;   /* rows, of all CPUs */
	__u64 calls;    /* of rows that were taken back */
	bool can_age;   /* the kernel can tell when no program holds a row any more */
	__u64 lost;     /* calls that found no row, as far as they were looked at */
	bool can_hurry; /* whether a process has ended can be told */
	__u64 hurry_until_ns;
	__u32 hurry_first, hurry_end; /* rows of the last look in a hurry */
	__u32 hurry_marked;           /* of these */
	__u32 hurry_left;             /* rows that were not looked at since the last call that found none */
	__u32 hurry_freed;            /* since the first row was looked at */
};

/* -ENOMEM. */
int futex_rows_open(struct futex_rows *rows, struct futexes_known *known, struct futex_row *table, __u32 cpus,
		    __u32 per_cpu);
void futex_rows_close(struct futex_rows *rows);
/* At a flush: each futex has its rows, their calls, and no waits in progress; returns the number of all calls. */
__u64 futex_rows_read(struct futex_rows *rows);
/* What the futex has in all rows, and had in those taken back; after futex_rows_read(). */
void futex_rows_sum(const struct futex_rows *rows, const struct futex *futex, struct futex_row *sum);
/* After the sums were stored: takes rows back where they are few. */
void futex_rows_age(struct futex_rows *rows);
/*
 * Between flushes, where calls find no row: takes back those of processes that have ended.  lost: calls that found
 * none, ever.  A flood of processes that live for one call fills the table before the next flush.  Each time it looks
 * at some of the rows, from where it ended.  Whether it did.
 */
bool futex_rows_hurry(struct futex_rows *rows, __u64 lost, __u64 now_ns);

#endif /* LOCKLINE_FUTEX_ROWS_H */
