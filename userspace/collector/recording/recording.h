/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a recording: SQLite, schema in recording.sql.
 *
 * All between two commits is one transaction, so that a collector killed at any
 * moment leaves the last interval whole.  Every function returns 0 or a
 * negative errno and has then told the user why, once.  Rows are written by
 * recording_put() of recording_rows.h.
 */
#ifndef LOCKLINE_RECORDING_H
#define LOCKLINE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct recording;

/* What columns hold; recording_put.h, which make makes from recording.sql, has a structure for each table. */
struct recorded_blob {
	const void *data; /* NULL: empty */
	size_t size;
};

/* Of a column that may be NULL, as it is from {}. */
struct recorded_integer {
	__s64 value;
	bool known;
};

/* Of a column without a type: the text, or without one the number. */
struct recorded_value {
	const char *text;
	__s64 number;
};

static inline struct recorded_integer recorded(__s64 value)
{
	return (struct recorded_integer){.value = value, .known = true};
}

/* Before what takes long: whether there can be a recording of that name.  A refusal has been told. */
int recording_check(const char *path);
/* Before any is made: nobody has named its place, which TMPDIR says (--temporary). */
void recording_is_temporary(bool is);
/* A recording that is there is put aside; mode 0600. */
int recording_create(struct recording **out, const char *path);
/*
 * One that is written in one go, by an import: PATH appears when it is whole,
 * by recording_publish(); an earlier file stays until then.
 */
int recording_create_whole(struct recording **out, const char *path);
/* Commits, closes, and puts it in its place; the recording is gone either way. */
int recording_publish(struct recording *recording);
/* Commits, and begins the next transaction. */
int recording_commit(struct recording *recording);
/*
 * Whether there is no place for more detail: a reader does not go on, its journal
 * is as long as it may be, and what waits in memory too.  Totals still have one.
 */
bool recording_is_full(struct recording *recording);
/* What a commit took at most, to whoever called. */
__u64 recording_longest_commit_ns(const struct recording *recording);
/* Commits, folds the journal into the file, closes; the recording is gone either way. */
int recording_finish(struct recording *recording);
/* The first interval is in it: the recording that was put aside is now PATH.old, as perf does. */
void recording_settle(struct recording *recording);
/* Closes without a commit. */
void recording_close(struct recording *recording);
/* Closes and removes it, and puts back the one before: nothing was recorded. */
void recording_abandon(struct recording *recording);

#endif /* LOCKLINE_RECORDING_H */
