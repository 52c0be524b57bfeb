/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that write a recording: its file and transactions, its rows, and what it keeps of them. */
#ifndef LOCKLINE_RECORDING_INTERNAL_H
#define LOCKLINE_RECORDING_INTERNAL_H

#include <sqlite3.h>

#include "recording/output_file.h"
#include "recording/recording_disk.h"
#include "recording_put.h"

/* Statements that are more than one row in its table. */
enum statement {
	ADD_MEMORY_WAIT,
	FIND_WAITER,
	FIND_TASK,
	FIND_TASK_BY_TID,
	FIND_TASK_OF_NAME,
	FIND_STACK,
	FIND_CGROUP,
	FIND_FRAME,
	FIND_OUTLIER,
	FIND_HOT_LOCK,
	FIND_CELL,
	FIND_CPU,
	FIND_LOCK_NAME,
	FIND_LOCK_TITLE,
	FIND_PROGRESS,
	TRIM_OUTLIERS,
	PRUNE_OUTLIERS,
	PLACE_OUTLIERS,
	AGE_EPISODES,
	SET_FRAME_NAME,
	SET_FUTEX_NAME,
	SET_MEMORY_LINE_PAGES,
	SET_MEMORY_LINE_NAME,
	DROP_MEMORY_LINE,
	DROP_MEMORY_CODE,
	DROP_MEMORY_THREAD,
	DROP_MEMORY_ACCESSES,
	DROP_MEMORY_INTERRUPTS,
	DROP_MEMORY_WAITS,
	STATEMENTS
};

/* Why the transaction goes on where there should be a commit. */
enum held { HELD_NOT, HELD_NO_SPACE, HELD_READ_ONLY, HELD_BY_READER };

struct recording {
	sqlite3 *db;
	sqlite3_stmt *rows[RECORDING_TABLES];
	sqlite3_stmt *statements[STATEMENTS];
	struct output_file file;
	char *path; /* as it was given */
	bool told;
	bool interval; /* one was written */
	bool kept;     /* and committed */
	enum held held;
	struct recording_disk *disk; /* NULL: not before an interval is kept */
	__u64 journal_bytes;         /* as of the last commit */
	__u64 fold_bytes;            /* from so many on it should go into the file */
	__u64 journal_most;          /* it grows no further while a reader keeps it */
	__u64 held_most;             /* so much waits in memory meanwhile */
	__u64 longest_commit_ns;
	bool folds;                   /* recording_fold_begin() was called */
	__s64 tasks_left, locks_left; /* that were gone and could not be folded, when that was tried last */
};

/* What to do where its place is no good. */
const char *recording_elsewhere(void);
/* Says why, once; negative errno. */
int recording_failed(struct recording *recording, const char *what);
/* Runs statements, with values in them as sqlite3_mprintf() has it. */
int recording_run_sql(struct recording *recording, const char *format, ...);
/* The one number that a query asks for; 0 without a row. */
int recording_ask(struct recording *recording, const char *query, __s64 *out);
/* All statements, kept until recording_finalize(); an SQLite code. */
int recording_prepare(struct recording *recording);
void recording_finalize(struct recording *recording);

#endif /* LOCKLINE_RECORDING_INTERNAL_H */
