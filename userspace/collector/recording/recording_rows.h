/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes, finds and removes rows of a recording.
 *
 * Rows of tables that sum up (sample_total, wait_interval, ...) add to the row that
 * is there; others replace it.  See recording_rows.c.
 */
#ifndef LOCKLINE_RECORDING_ROWS_H
#define LOCKLINE_RECORDING_ROWS_H

#include "base/histogram_blob.h"
#include "recording_put.h"

/* A row by its columns: recording_put(recording, kind, .id = 3, .name = "mutex"); those that are left out are 0 or NULL. */
#define recording_put(recording, table, ...) recording_put_##table((recording), &(struct recorded_##table){__VA_ARGS__})

/* A fact of the recording, in meta. */
int recording_put_text(struct recording *recording, const char *name, const char *text);
int recording_put_number(struct recording *recording, const char *name, __s64 number);
/* Adds to the row that is there, where recording_put() replaces it. */
int recording_add_memory_wait(struct recording *recording, const struct recorded_memory_wait *row);

/* The figures of a row of cell_total, or of cpu_total. */
struct recorded_cell {
	__u64 waits;
	__u64 wait_ns;
	__u64 max_ns;
	__u64 failed;
	struct histogram_blob histogram;
};

/* What the file has of a lock, kind and CPU so far; zeroes if nothing. */
int recording_find_cell(struct recording *recording, __s64 lock, __u32 kind, __u32 cpu, struct recorded_cell *cell);
int recording_find_cpu(struct recording *recording, __u32 cpu, __u32 kind, struct recorded_cell *cell);

/* The id of a row; 0: there is none.  Negative errno on failure. */
__s64 recording_find_waiter(struct recording *recording, __u32 tid, __u32 tgid, const char *comm, __u64 cgroup);
/* The same in any cgroup. */
__s64 recording_find_task(struct recording *recording, __u32 tid, __u32 tgid, const char *comm);
/* The one met last. */
__s64 recording_find_task_by_tid(struct recording *recording, __u32 tid);
__s64 recording_find_task_of_name(struct recording *recording, __u32 tid, const char *comm);
__s64 recording_find_stack(struct recording *recording, __u32 tgid, const void *frames, size_t size);
/* 1: it is there; a cgroup with its path. */
__s64 recording_has_cgroup(struct recording *recording, __u64 id);
__s64 recording_has_frame(struct recording *recording, __u32 tgid, __u64 address);
__s64 recording_last_outlier(struct recording *recording);
/* The address of the lock of that rank, 0 the most waited for, if it has a hundredth of all waits. */
__s64 recording_hot_lock(struct recording *recording, __u32 rank);
/* The lock's name, and that with its instance, cut to size; "" if there is none. */
int recording_lock_name(struct recording *recording, __s64 lock, char *out, size_t size);
int recording_lock_title(struct recording *recording, __s64 lock, char *out, size_t size);

/* All rows. */
int recording_clear(struct recording *recording, enum recording_table table);
/* In words: waits so far, the lock with most waiting, and what was lost. */
int recording_progress(struct recording *recording, char *out, size_t size);

/* Keeps the longest of an interval; *dropped: how many are gone. */
int recording_trim_outliers(struct recording *recording, __s64 interval, __u32 kept, __u64 *dropped);
/* Those that ended before. */
int recording_prune_outliers(struct recording *recording, __u64 before_ns);
/* Gives those without an interval that one. */
int recording_place_outliers(struct recording *recording, __s64 interval);
/* What was in progress was, by now. */
int recording_age_episodes(struct recording *recording);
/* Of rows that are there; others stay as they are. */
int recording_set_frame_name(struct recording *recording, __u32 tgid, __u64 address, const char *symbol, __u64 offset,
			     const char *module);
int recording_set_futex_name(struct recording *recording, __s64 id, const char *name, const char *object);
int recording_set_memory_line_pages(struct recording *recording, __s64 id, const char *nodes, __s64 pages);
int recording_set_memory_line_name(struct recording *recording, __s64 id, const char *symbol, __s64 offset);
int recording_drop_memory_line(struct recording *recording, __s64 id);
int recording_drop_memory_code(struct recording *recording, __s64 id);
int recording_drop_memory_thread(struct recording *recording, __s64 id);
int recording_drop_memory_accesses(struct recording *recording, __s64 line);
int recording_drop_memory_interrupts(struct recording *recording, __s64 line);
int recording_drop_memory_waits(struct recording *recording, __s64 line);

#endif /* LOCKLINE_RECORDING_ROWS_H */
