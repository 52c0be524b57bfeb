// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/histogram_blob.h"
#include "base/programs.h"
#include "waits/totals.h"
#include "recording/recording_rows.h"

/* Flushes without a wait after which a row may be taken back. */
#define IDLE_FLUSHES 3

/* A bucket of a row that passed 2^32: rare enough for a list. */
struct wrap {
	__u32 row;
	__u32 bucket;
	__u64 beyond;
};

struct totals {
	const struct maps *maps;
	struct recording *recording;
	struct locks *locks;
	struct row_last_read *last_reads; /* as the rows in the map */
	size_t last_read_bytes;
	__u32 *rows_seen;                  /* per CPU: claimed when rows were met last */
	struct figures gained[KIND_COUNT]; /* by the CPU that is being flushed, in this flush */
	struct wrap *wraps;
	size_t wrap_count;
	__u32 *rows_live; /* per CPU: as the last flush found them */
	/* Those that may have something, first; others are not looked at, which would fetch a line for each. */
	__u32 *listed;                   /* as the rows in the map: numbers of a CPU's rows */
	__u32 *listed_count, *listed_at; /* per CPU: and how many were claimed ever when it was made */
	size_t listed_bytes;
	__u32 retiring; /* rows, of all CPUs */
	bool can_age;   /* the kernel can tell when no program holds a row any more */
	bool aged;      /* a cell may be the sum of several rows: the file has what was before */
};

int totals_open(struct totals **out, const struct maps *maps, struct recording *recording, struct locks *locks)
{
	const struct sizing *sizing = maps->sizing;
	struct totals *totals = calloc(1, sizeof(*totals));

	if (!totals)
		return -ENOMEM;
	totals->maps = maps;
	totals->recording = recording;
	totals->locks = locks;
	totals->last_read_bytes = (size_t)sizing->cpus * sizing->rows * sizeof(*totals->last_reads);
	/* Pages of rows that are never used stay untouched. */
	totals->last_reads =
		mmap(NULL, totals->last_read_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	totals->rows_seen = calloc(sizing->cpus, sizeof(*totals->rows_seen));
	totals->rows_live = calloc(sizing->cpus, sizeof(*totals->rows_live));
	totals->listed_count = calloc(sizing->cpus, sizeof(*totals->listed_count));
	totals->listed_at = calloc(sizing->cpus, sizeof(*totals->listed_at));
	totals->listed_bytes = (size_t)sizing->cpus * sizing->rows * sizeof(*totals->listed);
	totals->listed = mmap(NULL, totals->listed_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	totals->can_age = programs_can_be_waited_for();
	if (totals->last_reads == MAP_FAILED || totals->listed == MAP_FAILED || !totals->rows_seen ||
	    !totals->rows_live || !totals->listed_count || !totals->listed_at) {
		totals_close(totals);
		return -ENOMEM;
	}
	*out = totals;
	return 0;
}

void totals_close(struct totals *totals)
{
	if (!totals)
		return;
	if (totals->last_reads && totals->last_reads != MAP_FAILED)
		munmap(totals->last_reads, totals->last_read_bytes);
	if (totals->listed && totals->listed != MAP_FAILED)
		munmap(totals->listed, totals->listed_bytes);
	free(totals->listed_count);
	free(totals->listed_at);
	free(totals->rows_seen);
	free(totals->wraps);
	free(totals->rows_live);
	free(totals);
}

static int meet_row(struct totals *totals, __u32 cpu, const struct wait_row *row, struct row_last_read *last_read,
		    find_stack find, void *data)
{
	__u64 key = last_read->age == ROW_LIVE ? row->key : last_read->key;
	struct lock_hint hint = {
		.address = row_lock(key),
		.kind = row_kind(key),
		.owner = last_read->reused ? OWNER_UNKNOWN : row->owner,
		.owner_offset = row->owner_offset,
		.owner_id = row->owner_id,
	};
	struct known_lock *lock;
	int err;

	hint.frame_count = find ? find(data, hint.address, &hint.frames) : 0;
	lock = locks_meet(totals->locks, &hint, &err);
	if (lock)
		last_read->total = locks_total(totals->locks, lock, hint.kind);
	if (last_read->total)
		locks_bind(totals->locks, last_read->total);
	if (!err && !last_read->total)
		last_read->total = locks_other(totals->locks, hint.kind);
	return err;
}

/* A program claims a row, and then counts it: one that is not seen now makes another list. */
static const __u32 *list_rows(struct totals *totals, __u32 cpu)
{
	const struct sizing *sizing = totals->maps->sizing;
	const __u32 used = __atomic_load_n(&maps_cpu(totals->maps, cpu)->rows_used, __ATOMIC_ACQUIRE);
	__u32 *listed = totals->listed + (size_t)cpu * sizing->rows, count = 0;

	if (totals->listed_count[cpu] && totals->listed_at[cpu] == used)
		return listed;
	for (__u32 i = 0; i < sizing->rows; i++)
		if (i >= sizing->named_rows || __atomic_load_n(&maps_row(totals->maps, cpu, i)->key, __ATOMIC_RELAXED))
			listed[count++] = i;
	totals->listed_count[cpu] = count;
	totals->listed_at[cpu] = used;
	return listed;
}

int totals_meet_rows(struct totals *totals, __u32 cpu, bool all, find_stack find, void *data)
{
	const struct sizing *sizing = totals->maps->sizing;
	__u32 used = __atomic_load_n(&maps_cpu(totals->maps, cpu)->rows_used, __ATOMIC_ACQUIRE);
	const __u32 *listed;

	if (used == totals->rows_seen[cpu] && !all)
		return 0;
	listed = list_rows(totals, cpu);
	for (__u32 at = 0; at < totals->listed_count[cpu]; at++) {
		const __u32 i = listed[at];
		struct row_last_read *last_read = &totals->last_reads[(size_t)cpu * sizing->rows + i];
		const struct wait_row *row = maps_row(totals->maps, cpu, i);
		int err;

		/* A row's first wait may still last: it is met when a sample or a flush comes upon it. */
		if (i >= sizing->named_rows || last_read->total || !row->waits)
			continue;
		err = meet_row(totals, cpu, row, last_read, find, data);
		if (err)
			return err;
	}
	totals->rows_seen[cpu] = used;
	return 0;
}

/* What passed 2^32 in a bucket of a row, to be added to its 32 bits. */
static __u64 beyond(const struct totals *totals, __u32 row, __u32 bucket)
{
	for (size_t i = 0; i < totals->wrap_count; i++)
		if (totals->wraps[i].row == row && totals->wraps[i].bucket == bucket)
			return totals->wraps[i].beyond;
	return 0;
}

static int note_wrap(struct totals *totals, __u32 row, __u32 bucket)
{
	struct wrap *wraps;

	for (size_t i = 0; i < totals->wrap_count; i++) {
		if (totals->wraps[i].row == row && totals->wraps[i].bucket == bucket) {
			totals->wraps[i].beyond += 1ull << 32;
			return 0;
		}
	}
	wraps = realloc(totals->wraps, (totals->wrap_count + 1) * sizeof(*wraps));
	if (!wraps)
		return -ENOMEM;
	totals->wraps = wraps;
	wraps[totals->wrap_count++] = (struct wrap){.row = row, .bucket = bucket, .beyond = 1ull << 32};
	return 0;
}

static void add_figures(struct figures *to, const struct figures *gained)
{
	to->waits += gained->waits;
	to->wait_ns += gained->wait_ns;
	to->failed += gained->failed;
	if (gained->max_ns > to->max_ns)
		to->max_ns = gained->max_ns;
}

static __u64 bucket_lower_ns(__u32 bucket)
{
	if (!bucket)
		return 0;
	bucket--;
	return (__u64)(4 + bucket % 4) << (bucket / 4 + HISTOGRAM_FIRST_SHIFT - 2);
}

static struct histogram_blob encode(const struct figures *figures)
{
	struct histogram_blob blob = {.size = 0};

	for (__u32 i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram_put(&blob, i, figures->histogram[i]);
	return blob;
}

static void add_blob(struct figures *figures, const struct histogram_blob *blob)
{
	for (int i = 0; i + HISTOGRAM_ENTRY <= blob->size; i += HISTOGRAM_ENTRY) {
		const unsigned char *entry = blob->bytes + i;

		figures->histogram[(entry[0] | entry[1] << 8) & (HISTOGRAM_BUCKETS - 1)] +=
			entry[2] | entry[3] << 8 | entry[4] << 16 | (__u32)entry[5] << 24;
	}
}

static void add_cell(struct figures *to, const struct recorded_cell *cell)
{
	add_blob(to, &cell->histogram);
	add_figures(to, &(struct figures){.waits = cell->waits,
					  .wait_ns = cell->wait_ns,
					  .max_ns = cell->max_ns,
					  .failed = cell->failed});
}

/* A cell that several rows of its CPU may have, at once or one after the other: added to what the file has. */
static int add_to_cell(struct totals *totals, __u32 cpu, struct lock_total *total, const struct figures *gained,
		       const struct histogram_blob *gained_blob)
{
	struct figures sum = *gained;
	struct recorded_cell cell;
	struct histogram_blob blob;
	int err = recording_find_cell(totals->recording, total->lock, total->kind, cpu, &cell);

	if (err)
		return err;
	add_blob(&sum, gained_blob);
	add_cell(&sum, &cell);
	if (sum.wait_ns > total->worst_cpu_ns) {
		total->worst_cpu = cpu;
		total->worst_cpu_ns = sum.wait_ns;
	}
	blob = encode(&sum);
	return recording_put(totals->recording, cell_total, .lock = total->lock, .kind = total->kind, .cpu = cpu,
			     .waits = sum.waits, .wait_ns = sum.wait_ns, .max_ns = sum.max_ns, .failed = sum.failed,
			     .histogram = {blob.bytes, blob.size});
}

/* One row that gained waits: its interval, its cell, and what it adds to its lock and its CPU. */
static int flush_row(struct totals *totals, __s64 interval, __u32 cpu, __u32 index)
{
	const struct wait_row *row = maps_row(totals->maps, cpu, index);
	__u32 number = cpu * totals->maps->sizing->rows + index;
	struct row_last_read *last_read = &totals->last_reads[number];
	struct lock_total *total = last_read->total;
	struct figures *by_cpu = &totals->gained[total->kind & (KIND_COUNT - 1)];
	struct histogram_blob gained_blob = {.size = 0}, cell_blob = {.size = 0};
	struct figures gained = {0};
	int err = 0;

	/*
	 * The row may be written while it is read: what is missed now is in the
	 * next interval.  waits is written last and read first, so that the rest is
	 * never short of it.
	 */
	gained.waits = __atomic_load_n(&row->waits, __ATOMIC_ACQUIRE) - last_read->waits;
	gained.wait_ns = __atomic_load_n(&row->wait_ns, __ATOMIC_RELAXED) - last_read->wait_ns;
	gained.failed = row->failed - last_read->failed;
	for (__u32 i = 0; i < HISTOGRAM_BUCKETS; i++) {
		__u32 now = row->histogram[i], more = now - last_read->histogram[i];

		if (more) {
			if (now < last_read->histogram[i]) {
				err = note_wrap(totals, number, i);
				if (err)
					return err;
				last_read->wrapped = true;
			}
			last_read->histogram[i] = now;
			histogram_put(&gained_blob, i, more);
			total->figures.histogram[i] += more;
			by_cpu->histogram[i] += more;
			gained.max_ns = bucket_lower_ns(i);
		}
		if (now || last_read->wrapped)
			histogram_put(&cell_blob, i, now + (last_read->wrapped ? beyond(totals, number, i) : 0));
	}
	if (row->max_ns > last_read->max_ns)
		gained.max_ns = last_read->max_ns = row->max_ns;
	last_read->waits += gained.waits;
	last_read->wait_ns += gained.wait_ns;
	last_read->failed += gained.failed;
	locks_used(totals->locks, total);
	add_figures(&total->figures, &gained);
	add_figures(by_cpu, &gained);
	total->changed = true;
	if (!totals->aged && last_read->wait_ns > total->worst_cpu_ns) {
		total->worst_cpu = cpu;
		total->worst_cpu_ns = last_read->wait_ns;
	}
	if (interval != NO_INTERVAL)
		err = recording_put(totals->recording, wait_interval, .interval = interval, .cpu = cpu,
				    .lock = total->lock, .kind = total->kind, .waits = gained.waits,
				    .wait_ns = gained.wait_ns, .max_ns = gained.max_ns, .failed = gained.failed,
				    .histogram = {gained_blob.bytes, gained_blob.size});
	if (err)
		return err;
	if (totals->aged || total->lock == OTHER_LOCK)
		return add_to_cell(totals, cpu, total, &gained, &gained_blob);
	return recording_put(totals->recording, cell_total, .lock = total->lock, .kind = total->kind, .cpu = cpu,
			     .waits = last_read->waits, .wait_ns = last_read->wait_ns, .max_ns = last_read->max_ns,
			     .failed = last_read->failed, .histogram = {cell_blob.bytes, cell_blob.size});
}

static int put_lock_total(const struct lock_total *total, void *data)
{
	struct totals *totals = data;
	struct histogram_blob blob = encode(&total->figures);

	return recording_put(totals->recording, lock_total, .lock = total->lock, .kind = total->kind,
			     .waits = total->figures.waits, .wait_ns = total->figures.wait_ns,
			     .max_ns = total->figures.max_ns, .failed = total->figures.failed,
			     .worst_cpu = total->worst_cpu, .worst_cpu_ns = total->worst_cpu_ns,
			     .histogram = {blob.bytes, blob.size});
}

/* Few gain something in a flush, and 512 CPUs would have thousands of sums: the file has them. */
static int put_cpu_total(struct totals *totals, __u32 cpu, __u32 kind)
{
	struct figures *sum = &totals->gained[kind];
	struct recorded_cell cell;
	struct histogram_blob blob;
	int err = recording_find_cpu(totals->recording, cpu, kind, &cell);

	if (err)
		return err;
	add_cell(sum, &cell);
	blob = encode(sum);
	err = recording_put(totals->recording, cpu_total, .cpu = cpu, .kind = kind, .waits = sum->waits,
			    .wait_ns = sum->wait_ns, .max_ns = sum->max_ns, .failed = sum->failed,
			    .histogram = {blob.bytes, blob.size});
	*sum = (struct figures){0};
	return err;
}

/*
 * Idle rows are taken back in three steps, one at each flush, with a wait for all
 * programs between them, so that each wait is read exactly once.
 * 1. Its key becomes ROW_RETIRED: no program finds the row any more.  One that
 *    found it before may still write to it, or put it in a slot of a spinning wait.
 * 2. Those have ended.  No slot has the row: none will write to it any more.
 * 3. What the last ones wrote can be read.  It has been, so the row is emptied.
 */
static bool in_spin_slot(const struct totals *totals, __u32 cpu, __u32 index)
{
	const struct cpu_state *state = maps_cpu(totals->maps, cpu);
	__u32 depth = __atomic_load_n(&state->spin_depth, __ATOMIC_ACQUIRE);

	for (__u32 i = 0; i < SPIN_DEPTH && i < depth; i++)
		if (__atomic_load_n(&state->spin[i].row, __ATOMIC_RELAXED) == state->row_base + index)
			return true;
	return false;
}

static void forget_wraps(struct totals *totals, __u32 number)
{
	size_t kept = 0;

	for (size_t i = 0; i < totals->wrap_count; i++)
		if (totals->wraps[i].row != number)
			totals->wraps[kept++] = totals->wraps[i];
	totals->wrap_count = kept;
}

/* reach and crowded are of the place, for locks that live elsewhere: they stay. */
static void empty_row(struct wait_row *row)
{
	row->waits = row->wait_ns = row->max_ns = row->pending_ns = 0;
	row->pending_waits = row->begins = row->failed = 0;
	row->owner = row->has_stack = 0;
	row->owner_offset = row->owner_id = 0;
	memset(row->histogram, 0, sizeof(row->histogram));
	__atomic_store_n(&row->key, 0, __ATOMIC_RELEASE);
}

static void free_row(struct totals *totals, __u32 cpu, __u32 index)
{
	__u32 number = cpu * totals->maps->sizing->rows + index;
	struct row_last_read *last_read = &totals->last_reads[number];

	if (last_read->total)
		locks_release(last_read->total);
	forget_wraps(totals, number);
	*last_read = (struct row_last_read){0};
	totals->retiring--;
	empty_row(maps_row(totals->maps, cpu, index));
}

/* What the flush after a wait for all programs makes of a row; true: it is free now. */
static bool age_row(struct totals *totals, __u32 cpu, __u32 index, bool scarce, bool waited)
{
	struct row_last_read *last_read = &totals->last_reads[(size_t)cpu * totals->maps->sizing->rows + index];
	struct wait_row *row = maps_row(totals->maps, cpu, index);

	switch (last_read->age) {
	case ROW_LIVE:
		if (!scarce || last_read->idle < IDLE_FLUSHES)
			return false;
		last_read->key = row->key;
		last_read->age = ROW_MARKED;
		totals->retiring++;
		totals->aged = true; /* its lock may claim another row from now on */
		__atomic_store_n(&row->key, ROW_RETIRED, __ATOMIC_SEQ_CST);
		return false;
	case ROW_MARKED:
		if (waited && !in_spin_slot(totals, cpu, index))
			last_read->age = ROW_QUIET;
		return false;
	default:
		if (!waited)
			return false;
		free_row(totals, cpu, index);
		return true;
	}
}

/* Places found full have free ones near them now. */
static void look_again(struct totals *totals, __u32 cpu)
{
	for (__u32 i = 0; i < totals->maps->sizing->named_rows; i++) {
		struct wait_row *row = maps_row(totals->maps, cpu, i);

		if (row->crowded)
			row->crowded = 0;
	}
}

/* After the CPU's rows were written. */
static void age_rows(struct totals *totals, __u32 cpu, const __u32 *listed, bool waited)
{
	const struct sizing *sizing = totals->maps->sizing;
	bool scarce = (__u64)totals->rows_live[cpu] * 4 > (__u64)sizing->named_rows * 3 || locks_scarce(totals->locks);
	bool freed = false;
	__u32 live = 0;

	for (__u32 at = 0; totals->can_age && at < totals->listed_count[cpu]; at++) {
		const __u32 i = listed[at];

		if (i >= sizing->named_rows || !maps_row(totals->maps, cpu, i)->key)
			continue;
		live++;
		freed |= age_row(totals, cpu, i, scarce, waited);
	}
	totals->rows_live[cpu] = live;
	if (freed)
		look_again(totals, cpu);
}

/* A row that was not written since the last flush. */
static void note_idle(struct row_last_read *last_read, const struct wait_row *row)
{
	if (row->key && last_read->idle < IDLE_FLUSHES)
		last_read->idle++;
}

/* A row whose lock found no place among the names. */
static void try_name_again(struct totals *totals, struct row_last_read *last_read)
{
	if (locks_scarce(totals->locks))
		return;
	last_read->total = NULL;
	totals->aged = true;
}

/* A row whose lock is another one than it was bound to: what it gained since the last flush is the new one's. */
static int leave_reused(struct totals *totals, struct row_last_read *last_read)
{
	struct known_lock *lock = last_read->total ? last_read->total->of : NULL;
	int err = 0;

	if (!lock || !locks_reused(totals->locks, lock, last_read->idle, &err))
		return err;
	locks_release(last_read->total);
	last_read->total = NULL;
	last_read->reused = true;
	/* The file's cell of the new one begins with what comes now. */
	totals->aged = true;
	return err;
}

int totals_flush(struct totals *totals, __s64 interval)
{
	const struct sizing *sizing = totals->maps->sizing;
	bool waited = totals->retiring && programs_wait();
	int err = 0;

	for (__u32 cpu = 0; !err && cpu < sizing->cpus; cpu++) {
		const __u32 *listed = list_rows(totals, cpu);

		for (__u32 at = 0; !err && at < totals->listed_count[cpu]; at++) {
			const __u32 i = listed[at];
			struct row_last_read *last_read = &totals->last_reads[(size_t)cpu * sizing->rows + i];

			const struct wait_row *row = maps_row(totals->maps, cpu, i);

			/* waits is written last: a row whose other figures alone differ is being written. */
			if (row->waits == last_read->waits) {
				note_idle(last_read, row);
				continue;
			}
			err = leave_reused(totals, last_read);
			last_read->idle = 0;
			if (last_read->total && i < sizing->named_rows && last_read->total->lock == OTHER_LOCK)
				try_name_again(totals, last_read);
			if (!err && !last_read->total && i >= sizing->named_rows)
				last_read->total = locks_other(totals->locks, i - sizing->named_rows);
			else if (!err && !last_read->total && row->waits)
				err = meet_row(totals, cpu, row, last_read, NULL, NULL);
			if (!err && last_read->total)
				err = flush_row(totals, interval, cpu, i);
		}
		for (__u32 kind = 0; !err && kind < KIND_COUNT; kind++)
			if (totals->gained[kind].waits || totals->gained[kind].wait_ns)
				err = put_cpu_total(totals, cpu, kind);
		if (!err)
			age_rows(totals, cpu, listed, waited);
	}
	err = err ?: locks_changed(totals->locks, put_lock_total, totals);
	return err ?: locks_forget(totals->locks);
}
