// SPDX-License-Identifier: GPL-2.0-or-later
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/histogram_blob.h"
#include "recording/recording_sums.h"

/* A recording made to harm has a lock in each row: then sums are printed in parts. */
#define MOST_SUMS 16384
/* No value of a true recording comes near this. */
#define MOST_BYTES (1 << 16)

struct interval {
	__s64 id;
	__s64 hour;
};

struct sum {
	__s64 lock, kind;
	__s64 rows, waits, wait_ns, max_ns, failed;
	__u64 histogram[HISTOGRAM_OVERFLOW + 1];
};

struct sums {
	struct hash_index index;
	struct memory_budget budget;
	struct sum *list;
	__u32 count;
	__s64 hour;
	__s64 longest_ns;
};

/* The columns of the query. */
enum { INTERVAL, LOCK, KIND, WAITS, WAIT_NS, MAX_NS, FAILED, NUMBERS, HISTOGRAM = NUMBERS };

bool recording_sums_wanted(int argc, char **argv)
{
	return argc == 4 && !strcmp(argv[1], "sums");
}

static int read_intervals(struct interval **out, size_t *count)
{
	size_t room = 0;
	long long id, hour;
	int found;

	while ((found = scanf("%lld %lld", &id, &hour)) == 2) {
		if (*count == room) {
			struct interval *larger;

			room = room ? room * 2 : 1024;
			larger = reallocarray(*out, room, sizeof(**out));
			if (!larger)
				return -ENOMEM;
			*out = larger;
		}
		if (*count && (*out)[*count - 1].id >= id)
			return -EINVAL;
		(*out)[(*count)++] = (struct interval){id, hour};
	}
	return found == EOF && !ferror(stdin) ? 0 : -EINVAL;
}

static void forget(struct hash_index *index)
{
	free(index->slots);
	*index = (struct hash_index){.slots = NULL};
}

static void print_sums(struct sums *sums)
{
	for (__u32 i = 0; i < sums->count; i++) {
		const struct sum *sum = &sums->list[i];
		struct histogram_blob blob = {.size = 0};

		for (__u32 bucket = 0; bucket <= HISTOGRAM_OVERFLOW; bucket++)
			histogram_put(&blob, bucket, sum->histogram[bucket]);
		printf("%lld %lld %lld %lld %lld %lld %lld %lld ", sums->hour, sum->lock, sum->kind, sum->rows,
		       sum->waits, sum->wait_ns, sum->max_ns, sum->failed);
		for (int byte = 0; byte < blob.size; byte++)
			printf("%02x", blob.bytes[byte]);
		putchar('\n');
	}
	sums->count = 0;
	forget(&sums->index);
}

static struct sum *sum_of(struct sums *sums, __s64 lock, __s64 kind)
{
	__u32 hash = hash_two(lock, kind);
	struct sum *sum;

	hash_index_for(&sums->index, hash, number)
	{
		if (sums->list[number].lock == lock && sums->list[number].kind == kind)
			return &sums->list[number];
	}
	if (sums->count == MOST_SUMS)
		print_sums(sums);
	if (hash_index_add(&sums->index, &sums->budget, hash, sums->count))
		return NULL;
	sum = &sums->list[sums->count++];
	*sum = (struct sum){.lock = lock, .kind = kind};
	return sum;
}

/* A wait that was read while it was written has its time in one interval, and its count in the next. */
static bool possible(const struct sums *sums, const __s64 *row)
{
	return row[WAITS] >= 0 && row[FAILED] >= 0 && row[MAX_NS] >= 0 && row[MAX_NS] <= sums->longest_ns &&
	       row[WAIT_NS] >= 0 && row[WAIT_NS] <= ((__int128)row[WAITS] + 1) * sums->longest_ns;
}

static int add_histogram(struct sum *sum, const unsigned char *bytes, int size)
{
	if (size % HISTOGRAM_ENTRY)
		return -EINVAL;
	for (const unsigned char *entry = bytes; entry < bytes + size; entry += HISTOGRAM_ENTRY) {
		__u32 bucket = entry[0] | entry[1] << 8;

		if (bucket > HISTOGRAM_OVERFLOW)
			return -EINVAL;
		sum->histogram[bucket] += entry[2] | entry[3] << 8 | entry[4] << 16 | (__u32)entry[5] << 24;
	}
	return 0;
}

static int add_row(struct sums *sums, sqlite3_stmt *stmt, const __s64 *row)
{
	struct sum *sum;

	if (!possible(sums, row))
		return 0;
	sum = sum_of(sums, row[LOCK], row[KIND]);
	if (!sum)
		return -ENOMEM;
	sum->rows++;
	if (__builtin_add_overflow(sum->waits, row[WAITS], &sum->waits) ||
	    __builtin_add_overflow(sum->wait_ns, row[WAIT_NS], &sum->wait_ns) ||
	    __builtin_add_overflow(sum->failed, row[FAILED], &sum->failed))
		return -ERANGE;
	if (row[MAX_NS] > sum->max_ns)
		sum->max_ns = row[MAX_NS];
	return add_histogram(sum, sqlite3_column_blob(stmt, HISTOGRAM), sqlite3_column_bytes(stmt, HISTOGRAM));
}

static int read_row(sqlite3_stmt *stmt, __s64 *row)
{
	for (int column = 0; column < NUMBERS; column++) {
		if (sqlite3_column_type(stmt, column) != SQLITE_INTEGER)
			return -EINVAL;
		row[column] = sqlite3_column_int64(stmt, column);
	}
	return sqlite3_column_type(stmt, HISTOGRAM) == SQLITE_BLOB ? 0 : -EINVAL;
}

static int add_rows(struct sums *sums, sqlite3_stmt *stmt, const struct interval *intervals, size_t count)
{
	size_t at = 0;
	int step;

	while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
		__s64 row[NUMBERS];
		int err = read_row(stmt, row);

		if (err)
			return err;
		while (at < count && intervals[at].id < row[INTERVAL])
			at++;
		if (at == count || intervals[at].id != row[INTERVAL])
			continue;
		if (intervals[at].hour != sums->hour) {
			print_sums(sums);
			sums->hour = intervals[at].hour;
		}
		err = add_row(sums, stmt, row);
		if (err)
			return err;
	}
	print_sums(sums);
	return step == SQLITE_DONE ? 0 : -EIO;
}

static int open_rows(const char *path, sqlite3 **db, sqlite3_stmt **stmt)
{
	static const char query[] = "SELECT interval, lock, kind, waits, wait_ns, max_ns, failed, histogram"
				    " FROM wait_interval ORDER BY interval, cpu, lock, kind";

	/* What a recording brings along is not run. */
	if (sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
	    sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK ||
	    sqlite3_exec(*db, "PRAGMA cell_size_check = ON", NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(*db, query, sizeof(query), stmt, NULL) != SQLITE_OK)
		return -EIO;
	sqlite3_limit(*db, SQLITE_LIMIT_LENGTH, MOST_BYTES);
	return 0;
}

int recording_sums_main(char **argv)
{
	struct sums sums = {.budget.limit = UINT64_MAX, .list = calloc(MOST_SUMS, sizeof(*sums.list))};
	struct interval *intervals = NULL;
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	size_t count = 0;
	int err = sums.list ? read_intervals(&intervals, &count) : -ENOMEM;

	sums.longest_ns = atoll(argv[3]);
	if (!err)
		err = open_rows(argv[2], &db, &stmt);
	if (!err)
		err = add_rows(&sums, stmt, intervals, count);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	forget(&sums.index);
	free(sums.list);
	free(intervals);
	return err || fflush(stdout) || ferror(stdout) ? 1 : 0;
}
