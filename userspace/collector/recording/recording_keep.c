// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram_blob.h"
#include "cli/message.h"
#include "recording/recording_fold.h"
#include "recording/recording_internal.h"
#include "recording/recording_keep.h"
#include "recording/recording_rows.h"

/* Ages from which intervals are rolled up, of a recording that keeps a day or more. */
#define FIRST_AGE_NS  600000000000ull
#define SECOND_AGE_NS 7200000000000ull
/* Without so many intervals as they were recorded nothing is rolled up. */
#define LEAST_FINE 10
/* Intervals that are looked at, groups that are rolled up, and intervals that are removed, at one commit. */
#define LOOKED_AT 80
#define ROLLED    2
#define REMOVED   4
/* More while the file is too large. */
#define HURRIED 8
/* Parts of --max-size, in percent: from here on ages are halved, and the oldest removed. */
#define TIGHT 75
#define FULL  85
/* Ages are halved so often at most, and not more often than every so many commits. */
#define MOST_SQUEEZES   8
#define SQUEEZE_COMMITS 8
/* Commits between looks at the number of tasks, locks, futexes and cgroups. */
#define FOLD_COMMITS 8
/* Of each so many may stand for themselves, or fewer in a small file. */
#define MOST_NAMES    16384
#define LEAST_NAMES   512
#define BYTES_BY_NAME 8192
static const struct tier {
	__u32 length;   /* in intervals */
	__u32 outliers; /* kept of a rolled-up interval */
} tiers[KEEP_TIERS] = {{10, 300}, {60, 100}};

struct span {
	__s64 first, last;
	__u64 end_ns;
	bool found;
};

/* histogram_sum(BLOB): what the histograms of several rows add up to. */
static void add_histogram(sqlite3_context *context, int count, sqlite3_value **values)
{
	__u64 *buckets = sqlite3_aggregate_context(context, HISTOGRAM_BUCKETS * sizeof(*buckets));
	const unsigned char *entry = sqlite3_value_blob(values[0]);
	int size = sqlite3_value_bytes(values[0]);

	if (!buckets || !entry)
		return;
	for (; size >= HISTOGRAM_ENTRY; entry += HISTOGRAM_ENTRY, size -= HISTOGRAM_ENTRY) {
		__u32 bucket = entry[0] | entry[1] << 8;

		if (bucket < HISTOGRAM_BUCKETS)
			buckets[bucket] += entry[2] | entry[3] << 8 | entry[4] << 16 | (__u32)entry[5] << 24;
	}
}

static void end_histogram(sqlite3_context *context)
{
	const __u64 *buckets = sqlite3_aggregate_context(context, 0);
	struct histogram_blob blob = {.size = 0};

	for (__u32 i = 0; buckets && i < HISTOGRAM_BUCKETS; i++)
		histogram_put(&blob, i, buckets[i]);
	sqlite3_result_blob(context, blob.bytes, blob.size, SQLITE_TRANSIENT);
}

int recording_keep_begin(struct recording *recording, const struct keeper *keeper)
{
	if (!keeper_wanted(keeper))
		return 0;
	if (sqlite3_create_function_v2(recording->db, "histogram_sum", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
				       NULL, add_histogram, end_histogram, NULL) != SQLITE_OK)
		return recording_failed(recording, "write");
	if (keeper->max_bytes) {
		/* A quarter is the journal's, with what a transaction writes after the last look. */
		recording->journal_most = keeper->max_bytes / 8;
		recording->held_most =
			keeper->max_bytes / 8 < recording->held_most ? keeper->max_bytes / 8 : recording->held_most;
		recording->fold_bytes =
			keeper->max_bytes / 32 < recording->fold_bytes ? keeper->max_bytes / 32 : recording->fold_bytes;
	}
	/* Tables of their own, so that rows are not read while others of the same table are written. */
	return recording_run_sql(
		       recording,
		       "CREATE TEMP TABLE rolled_waits AS SELECT cpu, lock, kind, waits, wait_ns, max_ns, failed,"
		       " histogram FROM wait_interval WHERE 0;"
		       "CREATE TEMP TABLE rolled_samples AS SELECT waiter, lock, kind, stack, user_stack, samples,"
		       " waits, wait_ns FROM sample_interval WHERE 0;")
		       ?: recording_fold_begin(recording);
}

/* One interval of several; their ids lie between. */
static int roll_up(struct recording *recording, const struct span *span, __u32 outliers)
{
	const __s64 a = span->first, b = span->last;

	return recording_run_sql(
		       recording,
		       "INSERT INTO temp.rolled_waits SELECT cpu, lock, kind, sum(waits), sum(wait_ns), max(max_ns),"
		       " sum(failed), histogram_sum(histogram) FROM wait_interval WHERE interval BETWEEN %lld AND %lld"
		       " GROUP BY cpu, lock, kind;"
		       "DELETE FROM wait_interval WHERE interval BETWEEN %lld AND %lld;"
		       "INSERT INTO wait_interval SELECT %lld, * FROM temp.rolled_waits;"
		       "DELETE FROM temp.rolled_waits;"
		       "INSERT INTO temp.rolled_samples SELECT waiter, lock, kind, stack, user_stack, sum(samples),"
		       " sum(waits), sum(wait_ns) FROM sample_interval WHERE interval BETWEEN %lld AND %lld"
		       " GROUP BY waiter, lock, kind, stack, user_stack;"
		       "DELETE FROM sample_interval WHERE interval BETWEEN %lld AND %lld;"
		       "INSERT INTO sample_interval SELECT %lld, * FROM temp.rolled_samples;"
		       "DELETE FROM temp.rolled_samples;",
		       a, b, a, b, a, a, b, a, b, a)
		       ?: recording_run_sql(
				  recording,
				  "UPDATE outlier SET interval = %lld WHERE interval BETWEEN %lld AND %lld;"
				  "DELETE FROM outlier WHERE interval = %lld AND id NOT IN (SELECT outlier FROM "
				  "episode)"
				  " AND id NOT IN (SELECT id FROM outlier WHERE interval = %lld ORDER BY wait_ns DESC "
				  "LIMIT %u);"
				  "INSERT OR REPLACE INTO meta VALUES ('thinned_outliers', changes() +"
				  " coalesce((SELECT value FROM meta WHERE name = 'thinned_outliers'), 0));"
				  "DELETE FROM interval WHERE id > %lld AND id <= %lld;"
				  "UPDATE interval SET end_ns = %lld WHERE id = %lld;"
				  "INSERT OR REPLACE INTO meta VALUES ('rolled_until_ns', max(%lld,"
				  " coalesce((SELECT value FROM meta WHERE name = 'rolled_until_ns'), 0)));",
				  a, a, b, a, a, outliers, a, b, (__s64)span->end_ns, a, (__s64)span->end_ns);
}

static int remove_until(struct recording *recording, const struct span *span)
{
	const __s64 last = span->last, end_ns = span->end_ns;

	return recording_run_sql(
		recording,
		"DELETE FROM wait_interval WHERE interval <= %lld; DELETE FROM sample_interval WHERE interval <= %lld;"
		"DELETE FROM outlier WHERE interval <= %lld; DELETE FROM interval WHERE id <= %lld;"
		"DELETE FROM episode WHERE state <> 'in progress' AND begin_ns + wait_ns <= %lld;"
		"DELETE FROM timeline WHERE time_ns <= %lld;"
		"INSERT OR REPLACE INTO meta VALUES ('removed_until_ns', %lld);",
		last, last, last, last, end_ns, end_ns, end_ns);
}

/* text: of sqlite3_mprintf(), and freed. */
static int prepare(struct recording *recording, char *text, sqlite3_stmt **out)
{
	int code = text ? sqlite3_prepare_v2(recording->db, text, -1, out, NULL) : SQLITE_NOMEM;

	sqlite3_free(text);
	return code == SQLITE_OK ? 0 : recording_failed(recording, "write");
}

/*
 * The next intervals that make one of this length, all of them before the age;
 * found only if it is whole, that is, if what follows does not belong to it.
 */
static int next_group(struct recording *recording, struct keeper *keeper, int tier, __u64 before_ns, struct span *out)
{
	const __u64 length = tiers[tier].length * keeper->interval_ns, slack = keeper->interval_ns / 2;
	__u64 begin_ns = 0;
	__u32 members = 0;
	sqlite3_stmt *row;
	char *text = sqlite3_mprintf("SELECT id, begin_ns, end_ns FROM interval WHERE id > %lld AND end_ns <= %lld"
				     " ORDER BY id LIMIT %d",
				     keeper->rolled[tier], (__s64)before_ns, LOOKED_AT);
	int code, err = prepare(recording, text, &row);

	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	while ((code = sqlite3_step(row)) == SQLITE_ROW) {
		const __s64 id = sqlite3_column_int64(row, 0);
		const __u64 from_ns = sqlite3_column_int64(row, 1), to_ns = sqlite3_column_int64(row, 2);

		if (members && to_ns > begin_ns + length + slack) {
			out->found = true;
			break;
		}
		if (!members++) {
			begin_ns = from_ns;
			out->first = id;
		}
		out->last = id;
		out->end_ns = to_ns;
		if (to_ns + slack >= begin_ns + length || members == LOOKED_AT) {
			out->found = true;
			break;
		}
	}
	sqlite3_finalize(row);
	return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : recording_failed(recording, "write");
}

static int roll_tier(struct recording *recording, struct keeper *keeper, int tier, __u64 before_ns, int groups)
{
	struct span span;
	int err = 0;

	while (!err && groups-- > 0) {
		err = next_group(recording, keeper, tier, before_ns, &span);
		if (err || !span.found)
			break;
		if (span.first != span.last)
			err = roll_up(recording, &span, tiers[tier].outliers);
		keeper->rolled[tier] = span.last;
	}
	return err;
}

/* Up to so many of the oldest intervals, that end before this time; never the last ones. */
static int oldest(struct recording *recording, __u64 before_ns, int count, struct span *out)
{
	sqlite3_stmt *row;
	char *text = sqlite3_mprintf("SELECT id, end_ns FROM interval WHERE end_ns <= %lld AND id <"
				     " (SELECT max(id) FROM interval) - %d ORDER BY id LIMIT %d",
				     (__s64)before_ns, LEAST_FINE, count);
	int code, err = prepare(recording, text, &row);

	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	while ((code = sqlite3_step(row)) == SQLITE_ROW) {
		out->found = true;
		out->last = sqlite3_column_int64(row, 0);
		out->end_ns = sqlite3_column_int64(row, 1);
	}
	sqlite3_finalize(row);
	return code == SQLITE_DONE ? 0 : recording_failed(recording, "write");
}

static int remove_oldest(struct recording *recording, __u64 before_ns, int count, bool *removed)
{
	struct span span;
	int err = oldest(recording, before_ns, count, &span);

	*removed = !err && span.found;
	return *removed ? remove_until(recording, &span) : err;
}

/* What the file has in use, in percent of what it may have: a quarter of --max-size is for its journal. */
static int used_percent(struct recording *recording, const struct keeper *keeper, __u64 *out)
{
	__s64 bytes;
	int err = recording_ask(
		recording,
		"SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count,"
		" pragma_page_size",
		&bytes);

	*out = err ? 0 : (__u64)bytes * 100 / (keeper->max_bytes / 4 * 3);
	return err;
}

static int hold_size(struct recording *recording, struct keeper *keeper, __s64 interval)
{
	bool removed = true;
	__u64 used;
	int err = used_percent(recording, keeper, &used);

	if (!err && used >= TIGHT && keeper->squeeze < MOST_SQUEEZES && interval % SQUEEZE_COMMITS == 0)
		keeper->squeeze++;
	/* What is freed is written again before the file grows. */
	for (int i = 0; !err && used >= FULL && removed && i < HURRIED; i++) {
		err = remove_oldest(recording, ~0ull >> 1, REMOVED, &removed);
		err = err ?: used_percent(recording, keeper, &used);
	}
	if (!err && used >= 100 && !keeper->told) {
		keeper->told = true;
		message("%s: names and totals alone need more than --max-size: the file grows beyond it",
			recording->path);
	}
	return err;
}

static __u64 age_of(const struct keeper *keeper, int tier)
{
	const __u64 least = LEAST_FINE * keeper->interval_ns * (tier ? 2 : 1);
	const __u64 day_ns = 86400ull * 1000000000;
	__u64 age = tier ? SECOND_AGE_NS : FIRST_AGE_NS;

	if (keeper->keep_ns && keeper->keep_ns < day_ns)
		age = keeper->keep_ns / (day_ns / age);
	age >>= keeper->squeeze;
	return age > least ? age : least;
}

static __u32 most_names(const struct keeper *keeper)
{
	const __u64 most = keeper->max_bytes / BYTES_BY_NAME;

	if (!keeper->max_bytes || most > MOST_NAMES)
		return MOST_NAMES;
	return most > LEAST_NAMES ? most : LEAST_NAMES;
}

int recording_keep(struct recording *recording, struct keeper *keeper, __u64 now_ns)
{
	const int groups = keeper->squeeze ? HURRIED : ROLLED;
	bool removed = false;
	__s64 interval;
	int err = 0;

	if (!keeper_wanted(keeper))
		return 0;
	for (int tier = 0; !err && tier < KEEP_TIERS; tier++)
		if (now_ns > age_of(keeper, tier))
			err = roll_tier(recording, keeper, tier, now_ns - age_of(keeper, tier), groups);
	if (!err && keeper->keep_ns && now_ns > keeper->keep_ns)
		err = remove_oldest(recording, now_ns - keeper->keep_ns, REMOVED, &removed);
	err = err ?: recording_ask(recording, "SELECT max(id) FROM interval", &interval);
	if (!err && keeper->max_bytes)
		err = hold_size(recording, keeper, interval);
	if (!err && interval % FOLD_COMMITS == 0)
		err = recording_fold(recording, most_names(keeper));
	return err;
}
