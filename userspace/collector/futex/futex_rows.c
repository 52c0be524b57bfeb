// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "base/programs.h"
#include "futex/futex_rows.h"

/* Flushes without a call after which a row may be taken back. */
#define IDLE_FLUSHES 3
/* After the last call that found no row, and after the last look that freed a part of the rows. */
#define HURRY_NS   2000000000ull
#define HURRY_PART 32
/* Rows of one look: to ask whether their process has ended takes 1 us each, and rings wait to be read meanwhile. */
#define HURRY_ROWS 2048u

int futex_rows_open(struct futex_rows *rows, struct futexes_known *known, struct futex_row *table, __u32 cpus,
		    __u32 per_cpu)
{
	*rows = (struct futex_rows){.known = known, .rows = table, .cpus = cpus, .per_cpu = per_cpu};
	rows->can_age = programs_can_be_waited_for();
	rows->can_hurry = proc_has_kernel_ids();
	rows->seen = calloc((size_t)cpus * per_cpu, sizeof(*rows->seen));
	return rows->seen ? 0 : -ENOMEM;
}

void futex_rows_close(struct futex_rows *rows)
{
	free(rows->seen);
	rows->seen = NULL;
}

static bool has_name(const struct futex_rows *rows, __u32 number)
{
	return (number + 1) % rows->per_cpu;
}

static struct futex *futex_of(struct futex_rows *rows, __u32 number)
{
	const struct futex_row *row = &rows->rows[number];
	struct futex *futex;

	if (!has_name(rows, number))
		return &rows->known->nameless;
	/* A program claims it at this moment. */
	if (!__atomic_load_n(&row->key, __ATOMIC_ACQUIRE) || !row->address)
		return NULL;
	futex = futexes_meet(rows->known, row->tgid, row->address, row->flags & FUTEX_SHARED);
	futex->uses++;
	if (!*futex->comm)
		memcpy(futex->comm, row->comm, sizeof(futex->comm));
	return futex;
}

static void begin_anew(struct futex *futex)
{
	futex->first_row = futex->open_waits = 0;
	futex->open_ops = futex->oldest_ns = futex->open_ns = 0;
	futex->calls = futex_retired_calls(futex);
}

__u64 futex_rows_read(struct futex_rows *rows)
{
	struct futex *futex, *next;
	__u64 all = rows->calls;

	begin_anew(&rows->known->nameless);
	HASH_ITER (by_key, rows->known->by_key, futex, next)
		begin_anew(futex);
	for (__u32 i = 0; i < rows->cpus * rows->per_cpu; i++) {
		const struct futex_row *row = &rows->rows[i];
		struct futex_row_seen *seen = &rows->seen[i];
		__u64 calls;

		if (!seen->futex)
			seen->futex = futex_of(rows, i);
		if (!seen->futex)
			continue;
		calls = __atomic_load_n(&row->calls, __ATOMIC_RELAXED) + __atomic_load_n(&row->wakes, __ATOMIC_RELAXED);
		if (calls != seen->calls)
			seen->idle = 0;
		else if (seen->idle < IDLE_FLUSHES)
			seen->idle++;
		seen->calls = calls;
		seen->next_row = seen->futex->first_row;
		seen->futex->first_row = i + 1;
		seen->futex->calls += calls;
		all += calls;
	}
	return all;
}

void futex_rows_sum(const struct futex_rows *rows, const struct futex *futex, struct futex_row *sum)
{
	memset(sum, 0, sizeof(*sum));
	if (futex->retired)
		futex_row_add(sum, futex->retired);
	for (__u32 row = futex->first_row; row; row = rows->seen[row - 1].next_row)
		futex_row_add(sum, &rows->rows[row - 1]);
}

/*
 * A row is taken back in two steps, with a wait for all programs between them, so
 * that each call is counted exactly once.
 * 1. Its key becomes FUTEX_ROW_RETIRED: no program finds the row any more.  One
 *    that found it before may still write to it.
 * 2. Those have ended.  What they wrote goes to the futex, and the row is free.
 */
static bool may_go(const struct futex_rows *rows, __u32 number, bool scarce)
{
	const struct futex_row_seen *seen = &rows->seen[number];

	/* Its futex may find a place by now. */
	if (seen->futex == &rows->known->nameless)
		return !futexes_scarce(rows->known);
	return scarce && (seen->idle >= IDLE_FLUSHES || (seen->idle && task_gone(rows->rows[number].tgid)));
}

static void mark(struct futex_rows *rows, __u32 number)
{
	rows->seen[number].marked = true;
	rows->marked++;
	__atomic_store_n(&rows->rows[number].key, FUTEX_ROW_RETIRED, __ATOMIC_SEQ_CST);
}

static void free_row(struct futex_rows *rows, __u32 number)
{
	struct futex_row_seen *seen = &rows->seen[number];
	struct futex_row *row = &rows->rows[number];
	struct futex_row last = *row;

	/* Without memory its figures stay where they are. */
	if (!futex_retire(seen->futex, &last))
		return;
	rows->calls += last.calls + last.wakes;
	seen->futex->uses--;
	seen->futex->used = rows->known->flushes;
	*seen = (struct futex_row_seen){0};
	rows->marked--;
	memset(&row->address, 0, sizeof(*row) - offsetof(struct futex_row, address));
	__atomic_store_n(&row->key, 0, __ATOMIC_RELEASE);
}

/* A row of a process that has ended: what a program of it still writes is waited for. */
static bool is_left(const struct futex_rows *rows, __u32 number)
{
	const struct futex_row *row = &rows->rows[number];

	return row->calls + row->wakes && row->tgid && task_ended(row->tgid);
}

/* Those that the look before has marked, once all programs have ended that had found them. */
static __u32 free_marked(struct futex_rows *rows)
{
	__u32 freed = 0;

	if (!rows->hurry_marked || !programs_wait())
		return 0;
	for (__u32 i = rows->hurry_first; i < rows->hurry_end; i++) {
		if (!rows->seen[i].marked)
			continue;
		free_row(rows, i);
		freed++;
	}
	return freed;
}

/* The next rows, behind those of the look before: of processes that have ended. */
static void mark_left(struct futex_rows *rows)
{
	const __u32 all = rows->cpus * rows->per_cpu;

	rows->hurry_first = rows->hurry_end < all ? rows->hurry_end : 0;
	rows->hurry_end = all - rows->hurry_first < HURRY_ROWS ? all : rows->hurry_first + HURRY_ROWS;
	rows->hurry_marked = 0;
	for (__u32 i = rows->hurry_first; i < rows->hurry_end; i++) {
		struct futex_row_seen *seen = &rows->seen[i];

		if (!has_name(rows, i) || !rows->rows[i].key || seen->marked || !is_left(rows, i))
			continue;
		if (!seen->futex)
			seen->futex = futex_of(rows, i);
		if (!seen->futex)
			continue;
		mark(rows, i);
		rows->hurry_marked++;
	}
}

bool futex_rows_hurry(struct futex_rows *rows, __u64 lost, __u64 now_ns)
{
	const __u32 all = rows->cpus * rows->per_cpu;

	if (lost != rows->lost) {
		rows->hurry_until_ns = now_ns + HURRY_NS;
		rows->hurry_left = all;
	}
	rows->lost = lost;
	/* Of a large table all rows are looked at, however long that takes. */
	if (!rows->can_age || !rows->can_hurry || (now_ns >= rows->hurry_until_ns && !rows->hurry_left))
		return false;
	rows->hurry_freed += free_marked(rows);
	mark_left(rows);
	rows->hurry_left -= rows->hurry_left < HURRY_ROWS ? rows->hurry_left : HURRY_ROWS;
	if (rows->hurry_end == all) {
		if (rows->hurry_freed * HURRY_PART > all)
			rows->hurry_until_ns = now_ns + HURRY_NS;
		rows->hurry_freed = 0;
	}
	return true;
}

void futex_rows_age(struct futex_rows *rows)
{
	bool waited = rows->marked && programs_wait();

	for (__u32 cpu = 0; rows->can_age && cpu < rows->cpus; cpu++) {
		const __u32 first = cpu * rows->per_cpu, named = rows->per_cpu - 1;
		__u32 live = 0;

		for (__u32 i = first; i < first + named; i++)
			live += !!rows->seen[i].futex;
		for (__u32 i = first; i < first + named; i++) {
			if (!rows->seen[i].futex)
				continue;
			if (rows->seen[i].marked && waited)
				free_row(rows, i);
			else if (!rows->seen[i].marked &&
				 may_go(rows, i, live * 2 > named || futexes_scarce(rows->known)))
				mark(rows, i);
		}
	}
}
