/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a recording: SQLite, schema in recording.sql.
 *
 * All between two commits is one transaction, so that a collector killed at any
 * moment leaves the last interval whole.  Every function returns 0 or a
 * negative errno and has then told the user why, once.
 */
#ifndef LOCKLINE_RECORDING_H
#define LOCKLINE_RECORDING_H

#include <stddef.h>
#include <linux/types.h>

struct recording;

enum statement {
	PUT_META,
	PUT_PROBE,
	PUT_PROGRAM,
	PUT_COST,
	PUT_LOSS,
	PUT_BEGIN_COUNT,
	PUT_KIND,
	PUT_LOCK,
	PUT_INTERVAL,
	PUT_LOCK_TOTAL,
	PUT_CPU_TOTAL,
	PUT_CELL_TOTAL,
	PUT_WAIT_INTERVAL,
	PUT_CGROUP,
	ADD_WAITER,
	FIND_WAITER,
	FIND_TASK,
	FIND_TASK_BY_TID,
	ADD_STACK,
	FIND_STACK,
	ADD_FRAME,
	FIND_FRAME,
	ADD_SAMPLE_TOTAL,
	ADD_SAMPLE_INTERVAL,
	ADD_OUTLIER,
	TRIM_OUTLIERS,
	CLEAR_OPEN_WAITS,
	ADD_OPEN_WAIT,
	PRUNE_OUTLIERS,
	PLACE_OUTLIERS,
	FIND_OUTLIER,
	FIND_LOCK_NAME,
	FIND_TASK_OF_NAME,
	PUT_EPISODE,
	AGE_EPISODES,
	ADD_TIMELINE,
	PUT_BTF,
	PUT_CPU_PAIR,
	PUT_HOLDER_TOTAL,
	PUT_RELEASE_STACK,
	PUT_FAIRNESS,
	PUT_FUTEX,
	PUT_FUTEX_TOTAL,
	PUT_FUTEX_SEMAPHORE,
	ADD_FUTEX_SAMPLE,
	CLEAR_FUTEX_OWNED_WAITS,
	PUT_FUTEX_OWNED_WAIT,
	CLEAR_FUTEX_BUCKETS,
	ADD_FUTEX_BUCKET,
	PUT_CLOCK_TOTAL,
	ADD_CLOCK_SAMPLE,
	CLEAR_INACTIVE_WAITS,
	ADD_INACTIVE_WAIT,
	PUT_INACTIVE_CPU,
	CLEAR_ATTACHES,
	ADD_ATTACH,
	PUT_ATTACH_CPU,
	PUT_MEMORY_SOURCE,
	PUT_MEMORY_COUNT,
	PUT_MEMORY_LINE,
	PUT_MEMORY_THREAD,
	PUT_MEMORY_CODE,
	SET_MEMORY_LINE_PAGES,
	SET_MEMORY_LINE_NAME,
	DROP_MEMORY_LINE,
	DROP_MEMORY_CODE,
	DROP_MEMORY_THREAD,
	DROP_MEMORY_ACCESSES,
	DROP_MEMORY_INTERRUPTS,
	DROP_MEMORY_WAITS,
	PUT_MEMORY_ACCESS,
	ADD_MEMORY_WAIT,
	PUT_MEMORY_PROBLEM,
	PUT_SELF_CHECK,
	PUT_MEMORY_INTERRUPTS,
	PUT_MEMORY_WAIT,
	PUT_WATCH,
	PUT_WATCH_WINDOW,
	PUT_WATCH_TRANSFER,
	PUT_WATCH_ACCESS,
	PUT_WATCH_TOLD,
	PUT_WATCH_COMPARISON,
	FIND_HOT_LOCK,
	FIND_LOCK_TITLE,
	STATEMENTS
};

/* A recording that is there is put aside; mode 0600. */
int recording_create(struct recording **out, const char *path);
/*
 * One that is written in one go, by an import: PATH appears when it is whole,
 * by recording_publish(); an earlier file stays until then.
 */
int recording_create_whole(struct recording **out, const char *path);
/* Commits, closes, and puts it in its place; the recording is gone either way. */
int recording_publish(struct recording *recording);
/* Runs a statement; format: i __s64, d double, a const __s64 * and int count, t const char *, b const void * and int size. */
int recording_run(struct recording *recording, enum statement statement, const char *format, ...);
/* First column of the row that the statement finds; 0: none.  Negative errno on failure. */
__s64 recording_find(struct recording *recording, enum statement statement, const char *format, ...);
/* The same for a text, cut to size; "" if there is none. */
int recording_find_text(struct recording *recording, enum statement statement, char *out, size_t size,
			const char *format, ...);
/* Rows that the last statement inserted, changed or deleted. */
int recording_changes(const struct recording *recording);
/* Commits, and begins the next transaction. */
int recording_commit(struct recording *recording);
/* Commits, folds the journal into the file, closes; the recording is gone either way. */
int recording_finish(struct recording *recording);
/* The first interval is in it: the recording that was put aside is now PATH.old, as perf does. */
void recording_settle(struct recording *recording);
/* Closes without a commit. */
void recording_close(struct recording *recording);
/* Closes and removes it, and puts back the one before: nothing was recorded. */
void recording_abandon(struct recording *recording);

#endif /* LOCKLINE_RECORDING_H */
