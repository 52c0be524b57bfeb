// SPDX-License-Identifier: GPL-2.0-or-later
/* Recordings that go on for long: what is rolled up and removed, and that nothing else changes. */
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/histogram_blob.h"
#include "recording/recording_fold.h"
#include "recording/recording_keep.h"
#include "recording/recording_rows.h"
#include "tap.h"
#include "unsynced.h"

#define SECOND 1000000000ull
#define START  (1000 * SECOND)
#define LOCKS  3
#define CPUS   2
#define TASKS  7

static char directory[] = "/tmp/recording_keep_test.XXXXXX", path[PATH_MAX];

/* The answer to a query on the recording, as text. */
static const char *ask(const char *query)
{
	static char answers[4][512];
	static int next;
	char *answer = answers[next++ % 4];
	sqlite3_stmt *row;
	sqlite3 *db;
	size_t used = 0;

	*answer = 0;
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) || sqlite3_prepare_v2(db, query, -1, &row, NULL)) {
		snprintf(answer, sizeof(answers[0]), "%s", sqlite3_errmsg(db));
		sqlite3_close(db);
		return answer;
	}
	while (sqlite3_step(row) == SQLITE_ROW)
		for (int i = 0; i < sqlite3_column_count(row); i++)
			used += snprintf(answer + used, sizeof(answers[0]) - used, "%s%s", used ? " " : "",
					 (const char *)sqlite3_column_text(row, i) ?: "NULL");
	sqlite3_finalize(row);
	sqlite3_close(db);
	return answer;
}

static long long number(const char *query)
{
	return strtoll(ask(query), NULL, 10);
}

/* Sums of what was put, from a time on. */
struct sums {
	unsigned long long waits, wait_ns, max_ns, samples, bucket_7;
};

static struct sums put[100000];

static void add_row(struct recording *recording, int interval, int cpu, int lock, struct sums *sums)
{
	struct histogram_blob blob = {.size = 0};
	const __u64 waits = 1 + rand() % 9, wait_ns = waits * (64 + rand() % 100000), max_ns = wait_ns / waits;

	histogram_put(&blob, 7, waits);
	CHECK(!recording_put(recording, wait_interval, .interval = interval, .cpu = cpu, .lock = lock, .kind = 1,
			     .waits = waits, .wait_ns = wait_ns, .max_ns = max_ns,
			     .histogram = {blob.bytes, blob.size}),
	      "wait");
	CHECK(!recording_put(recording, sample_interval, .interval = interval, .waiter = 1 + rand() % TASKS,
			     .lock = lock, .kind = 1, .samples = 1, .waits = waits, .wait_ns = wait_ns),
	      "sample");
	sums->waits += waits;
	sums->wait_ns += wait_ns;
	sums->max_ns = max_ns > sums->max_ns ? max_ns : sums->max_ns;
	sums->samples++;
	sums->bucket_7 += waits;
}

/* An interval of a second, with outliers. */
static void add_interval(struct recording *recording, int interval, int outliers)
{
	const __u64 begin_ns = START + interval * SECOND;

	put[interval] = (struct sums){};
	for (int cpu = 0; cpu < CPUS; cpu++)
		for (int lock = 2; lock < 2 + LOCKS; lock++)
			if (rand() % 3)
				add_row(recording, interval, cpu, lock, &put[interval]);
	for (int i = 0; i < outliers; i++)
		CHECK(!recording_put(recording, outlier, .interval = interval, .begin_ns = begin_ns + i,
				     .wait_ns = 1000000 + 1000 * interval + i, .waiter = 1, .lock = 2, .kind = 1),
		      "outlier");
	CHECK(!recording_put(recording, interval, .id = interval, .begin_ns = begin_ns, .end_ns = begin_ns + SECOND),
	      "interval");
}

static struct recording *create(struct keeper *keeper)
{
	struct recording *recording = NULL;

	unlink(path);
	keeper->interval_ns = SECOND;
	keeper->rolled[0] = keeper->rolled[1] = -1;
	CHECK(!recording_create(&recording, path), "create");
	CHECK(!recording_keep_begin(recording, keeper), "begin");
	for (int i = 0; i < TASKS; i++)
		CHECK(!recording_put(recording, waiter, .tid = 100 + i, .tgid = 100, .comm = "task"), "waiter");
	return recording;
}

static void check_sums(long long from_ns, int intervals)
{
	struct sums want = {};
	char text[256];

	for (int i = 0; i < intervals; i++) {
		if ((long long)(START + i * SECOND) < from_ns)
			continue;
		want.waits += put[i].waits;
		want.wait_ns += put[i].wait_ns;
		want.samples += put[i].samples;
		want.max_ns = put[i].max_ns > want.max_ns ? put[i].max_ns : want.max_ns;
	}
	snprintf(text, sizeof(text), "%llu %llu %llu", want.waits, want.wait_ns, want.max_ns);
	CHECK_TEXT(ask("SELECT sum(waits), sum(wait_ns), max(max_ns) FROM wait_interval"), text);
	snprintf(text, sizeof(text), "%llu %llu %llu", want.samples, want.waits, want.wait_ns);
	CHECK_TEXT(ask("SELECT sum(samples), sum(waits), sum(wait_ns) FROM sample_interval"), text);
}

/* Intervals follow each other without gaps, and every row is of one of them. */
static void check_whole(void)
{
	CHECK_TEXT(
		ask("SELECT count(*) FROM interval a WHERE end_ns <> (SELECT begin_ns FROM interval b WHERE b.id > a.id"
		    " ORDER BY b.id LIMIT 1)"),
		"0");
	CHECK_TEXT(ask("SELECT count(*) FROM wait_interval WHERE interval NOT IN (SELECT id FROM interval)"), "0");
	CHECK_TEXT(ask("SELECT count(*) FROM sample_interval WHERE interval NOT IN (SELECT id FROM interval)"), "0");
	CHECK_TEXT(ask("SELECT count(*) FROM outlier WHERE interval NOT IN (SELECT id FROM interval)"), "0");
	CHECK_TEXT(ask("PRAGMA integrity_check"), "ok");
}

static void run(struct recording *recording, struct keeper *keeper, int intervals, int outliers)
{
	for (int i = 0; i < intervals; i++) {
		add_interval(recording, i, outliers);
		CHECK(!recording_keep(recording, keeper, START + (i + 1) * SECOND), "keep");
		if (i % 10 == 9)
			CHECK(!recording_commit(recording), "commit");
	}
	CHECK(!recording_finish(recording), "finish");
}

static void nothing_is_asked_for(void)
{
	struct keeper keeper = {};
	struct recording *recording = create(&keeper);

	run(recording, &keeper, 100, 2);
	CHECK_TEXT(ask("SELECT count(*), max(end_ns - begin_ns) FROM interval"), "100 1000000000");
	CHECK_TEXT(ask("SELECT count(*) FROM meta"), "0");
	CHECK_TEXT(ask("SELECT count(*) FROM outlier"), "200");
}

/* Ages of a day's 24th part: ten seconds are rolled up after 25 s, a minute after 300 s. */
static void sums_are_as_before(void)
{
	struct keeper keeper = {.keep_ns = 3600 * SECOND};
	struct recording *recording = create(&keeper);

	run(recording, &keeper, 1500, 0);
	check_sums(START, 1500);
	check_whole();
	CHECK_TEXT(ask("SELECT min(length), max(length) FROM (SELECT end_ns - begin_ns AS length FROM interval"
		       " WHERE end_ns < 2100 * 1000000000)"),
		   "60000000000 60000000000");
	CHECK(number("SELECT count(*) FROM interval") < 90, "%s intervals", ask("SELECT count(*) FROM interval"));
	CHECK_TEXT(ask("SELECT min(end_ns - begin_ns) FROM interval WHERE end_ns > 2490 * 1000000000"), "1000000000");
	CHECK_TEXT(ask("SELECT count(*) FROM meta WHERE name = 'removed_until_ns'"), "0");
	/* One row for each CPU, lock and interval, with one entry for its bucket. */
	CHECK_TEXT(ask("SELECT max(length(histogram)) FROM wait_interval"), "6");
}

static void histograms_add_up(void)
{
	struct keeper keeper = {.keep_ns = 3600 * SECOND};
	struct recording *recording = create(&keeper);
	struct histogram_blob one = {.size = 0}, two = {.size = 0};

	histogram_put(&one, 3, 5);
	histogram_put(&one, 121, 1);
	histogram_put(&two, 3, 0xfffffffeu);
	for (int i = 0; i < 60; i++) {
		const struct histogram_blob *blob = i ? &one : &two;

		CHECK(!recording_put(recording, wait_interval, .interval = i, .lock = 2, .kind = 1, .waits = 1,
				     .wait_ns = 1, .histogram = {blob->bytes, blob->size}),
		      "wait");
		CHECK(!recording_put(recording, interval, .id = i, .begin_ns = START + i * SECOND,
				     .end_ns = START + (i + 1) * SECOND),
		      "interval");
		CHECK(!recording_keep(recording, &keeper, START + (i + 1) * SECOND), "keep");
	}
	CHECK(!recording_finish(recording), "finish");
	/* Nine times five, and what passes 32 bits is an entry of its own. */
	CHECK_TEXT(ask("SELECT hex(histogram) FROM wait_interval ORDER BY interval LIMIT 1"),
		   "0300FFFFFFFF03002C000000790009000000");
	CHECK_TEXT(ask("SELECT waits FROM wait_interval ORDER BY interval LIMIT 1"), "10");
}

static void what_is_older_goes(void)
{
	struct keeper keeper = {.keep_ns = 600 * SECOND};
	struct recording *recording = create(&keeper);
	long long kept;

	run(recording, &keeper, 1300, 8);
	kept = number("SELECT min(begin_ns) FROM interval");
	check_sums(kept, 1300);
	check_whole();
	CHECK(kept >= (long long)(START + (1300 - 600 - 60) * SECOND), "%lld", kept);
	CHECK(kept <= (long long)(START + (1300 - 600) * SECOND), "%lld", kept);
	CHECK(kept == number("SELECT value FROM meta WHERE name = 'removed_until_ns'"), "%lld", kept);
	/* The longest of each are kept: the later ones are longer. */
	CHECK_TEXT(
		ask("SELECT count(*) FROM (SELECT count(*) AS waits FROM outlier GROUP BY interval) WHERE waits > 100"),
		"0");
	CHECK(number("SELECT value FROM meta WHERE name = 'thinned_outliers'") > 0, "none thinned");
}

/* At 2 MiB the file is as large as it may be after a third; and with the word `many`, as the laboratories have it: */
static int intervals = 1500, max_mib = 2;
#define MANY     20000
#define MANY_MIB 4

/* The file has at most this size, whatever is put into it; and the newest is in it. */
static void the_file_is_bounded(void)
{
	const __s64 max_bytes = max_mib << 20;
	struct keeper keeper = {.max_bytes = max_bytes};
	struct recording *recording = create(&keeper);
	struct stat file, journal;
	char name[PATH_MAX + 8];

	snprintf(name, sizeof(name), "%s-wal", path);
	for (int i = 0; i < intervals; i++) {
		add_interval(recording, i, 20);
		CHECK(!recording_keep(recording, &keeper, START + (i + 1) * SECOND), "keep");
		CHECK(!recording_commit(recording), "commit");
		if (stat(path, &file) || stat(name, &journal) || file.st_size + journal.st_size > max_bytes) {
			CHECK(false, "interval %d: %lld and %lld bytes", i, (long long)file.st_size,
			      (long long)journal.st_size);
			break;
		}
	}
	CHECK(!recording_finish(recording), "finish");
	check_sums(number("SELECT min(begin_ns) FROM interval"), intervals);
	check_whole();
	CHECK(number("SELECT max(id) FROM interval") == intervals - 1, "the last is there");
	CHECK(number("SELECT count(*) FROM interval") > 20, "%s intervals", ask("SELECT count(*) FROM interval"));
	CHECK(!keeper.told, "it can be held");
}

/* Tasks that only sums refer to are one for each command; those of what is kept stay. */
static void tasks_are_folded(void)
{
	struct keeper keeper = {.keep_ns = 60 * SECOND};
	struct recording *recording = create(&keeper);
	const int tasks = 20000;
	char text[64];

	for (int i = 0; i < tasks; i++) {
		__s64 id;

		CHECK(!recording_put(recording, waiter, .tid = 1000 + i, .tgid = 1000 + i,
				     .comm = i % 2 ? "odd" : "even"),
		      "waiter");
		id = recording_find_waiter(recording, 1000 + i, 1000 + i, i % 2 ? "odd" : "even", 0);
		CHECK(!recording_put(recording, sample_total, .waiter = id, .lock = 2, .kind = 1, .stack = 4,
				     .user_stack = 9, .samples = 1, .waits = 3, .wait_ns = 10),
		      "sample");
		if (i < 10)
			CHECK(!recording_put(recording, outlier, .interval = 158, .wait_ns = 5, .waiter = id),
			      "outlier");
	}
	for (int i = 0; i < 161; i++) {
		CHECK(!recording_put(recording, interval, .id = i, .begin_ns = START + i * SECOND,
				     .end_ns = START + (i + 1) * SECOND),
		      "interval");
		CHECK(!recording_keep(recording, &keeper, START + (i + 1) * SECOND), "keep");
	}
	CHECK(!recording_finish(recording), "finish");
	snprintf(text, sizeof(text), "%d %d %d", tasks, 3 * tasks, 10 * tasks);
	CHECK_TEXT(ask("SELECT sum(samples), sum(waits), sum(wait_ns) FROM sample_total"), text);
	CHECK_TEXT(ask("SELECT comm FROM waiter WHERE tid = 0 ORDER BY comm"), "even odd task");
	/* And those that were met last, of which samples may still come. */
	CHECK_TEXT(ask("SELECT count(*) FROM waiter WHERE tid >= 1000"), "267");
	CHECK_TEXT(ask("SELECT comm, samples, stack FROM sample_total JOIN waiter ON waiter.id = waiter WHERE tid = 0"
		       " ORDER BY comm"),
		   "even 9867 4 odd 9866 4");
}

#define GONE 9000

static void put_lock(struct recording *recording, int id)
{
	struct histogram_blob blob = {.size = 0};
	char name[32];

	histogram_put(&blob, 5, 2);
	snprintf(name, sizeof(name), "type_%d.lock", id % 3);
	CHECK(!recording_put(recording, lock, .id = id, .address = 64 * id, .name = name, .instance = "its own",
			     .source = "slab"),
	      "lock");
	CHECK(!recording_put(recording, lock_total, .lock = id, .kind = 1, .waits = 2, .wait_ns = 10, .max_ns = id,
			     .worst_cpu = id % 2, .worst_cpu_ns = 10, .histogram = {blob.bytes, blob.size}),
	      "total");
	CHECK(!recording_put(recording, cell_total, .lock = id, .kind = 1, .cpu = id % 2, .waits = 2, .wait_ns = 10,
			     .max_ns = id, .histogram = {blob.bytes, blob.size}),
	      "cell");
	CHECK(!recording_put(recording, sample_total, .waiter = 1, .lock = id, .kind = 1, .stack = 4, .samples = 1,
			     .waits = 2, .wait_ns = 10),
	      "sample");
}

/* Locks that are gone become one for each name; what intervals and the collector still have stays. */
static void locks_are_folded(void)
{
	struct keeper keeper = {.keep_ns = 60 * SECOND, .max_bytes = 16 << 20};
	struct recording *recording = create(&keeper);
	const int kept = 2, detailed = 3;

	for (int id = 2; id < 2 + GONE; id++) {
		put_lock(recording, id);
		if (id != kept)
			CHECK(!recording_forgot_lock(recording, id), "forgot");
	}
	CHECK(!recording_put(recording, outlier, .interval = 158, .wait_ns = 5, .waiter = 1, .lock = detailed), "out");
	for (int i = 0; i < 161; i++) {
		CHECK(!recording_put(recording, interval, .id = i, .begin_ns = START + i * SECOND,
				     .end_ns = START + (i + 1) * SECOND),
		      "interval");
		/* And again, with what was folded before. */
		for (int id = 0; i >= 80 && i < 130 && id < 100; id++) {
			put_lock(recording, 2 + GONE + (i - 80) * 100 + id);
			CHECK(!recording_forgot_lock(recording, 2 + GONE + (i - 80) * 100 + id), "forgot");
		}
		CHECK(!recording_keep(recording, &keeper, START + (i + 1) * SECOND), "keep");
	}
	CHECK(!recording_finish(recording), "finish");
	CHECK_TEXT(ask("SELECT sum(waits), sum(wait_ns), max(max_ns) FROM lock_total"), "28000 140000 14001");
	CHECK_TEXT(ask("SELECT sum(waits), sum(wait_ns), max(max_ns) FROM cell_total"), "28000 140000 14001");
	CHECK_TEXT(ask("SELECT sum(samples), sum(waits) FROM sample_total"), "14000 28000");
	CHECK_TEXT(ask("SELECT name, instance FROM lock WHERE id IN (2, 3) ORDER BY id"),
		   "type_2.lock its own type_0.lock its own");
	CHECK_TEXT(ask("SELECT name FROM lock WHERE address = 0 ORDER BY name"), "type_0.lock type_1.lock type_2.lock");
	CHECK(number("SELECT count(*) FROM lock") < 4200, "%lld locks", number("SELECT count(*) FROM lock"));
	/* 16 bits of bucket, 32 of count: of the largest row. */
	CHECK_TEXT(ask("SELECT count(*) FROM lock_total l WHERE worst_cpu_ns <> (SELECT max(wait_ns) FROM cell_total c"
		       " WHERE c.lock = l.lock AND c.kind = l.kind)"),
		   "0");
	CHECK_TEXT(ask("SELECT count(*) FROM lock_total WHERE hex(substr(histogram, 3, 4)) <>"
		       " printf('%02X%02X0000', waits & 255, waits >> 8)"),
		   "0");
	CHECK_TEXT(ask("SELECT count(*) FROM lock_total WHERE lock NOT IN (SELECT id FROM lock)"), "0");
}

static void put_futex(struct recording *recording, int id, const char *comm, int wait_ns)
{
	struct histogram_blob blob = {.size = 0};

	histogram_put(&blob, 5, 1);
	CHECK(!recording_put(recording, futex, .id = id, .tgid = id, .comm = comm, .address = 64 * id, .name = "",
			     .object = "[heap]"),
	      "futex");
	CHECK(!recording_put(recording, futex_total, .futex = id, .ops = 1 << id % 7, .calls = 3, .slept = 1,
			     .wait_ns = wait_ns, .max_ns = id, .waiters = id % 5, .wakes = 2,
			     .histogram = {blob.bytes, blob.size}, .latency_histogram = {blob.bytes, blob.size}),
	      "total");
	CHECK(!recording_put(recording, futex_sample, .futex = id, .role = "waiter", .task = 1, .stack = 0,
			     .samples = 1, .waits = 1, .wait_ns = wait_ns),
	      "sample");
	CHECK(!recording_forgot_futex(recording, id), "forgot");
}

/* The lightest become one for each command, and of those the lightest one for all others. */
static void futexes_are_folded(void)
{
	struct keeper keeper = {.keep_ns = 60 * SECOND, .max_bytes = 16 << 20};
	struct recording *recording = create(&keeper);
	char comm[16];

	for (int id = 2; id < 2 + GONE; id++) {
		snprintf(comm, sizeof(comm), "job-%d", id < 5000 ? id % 2 : id);
		put_futex(recording, id, comm, id == 100 ? 1000000 : 10);
	}
	for (int i = 0; i < 9; i++) {
		CHECK(!recording_put(recording, interval, .id = i, .begin_ns = START + i * SECOND,
				     .end_ns = START + (i + 1) * SECOND),
		      "interval");
		CHECK(!recording_keep(recording, &keeper, START + (i + 1) * SECOND), "keep");
	}
	CHECK(!recording_finish(recording), "finish");
	CHECK_TEXT(ask("SELECT sum(calls), sum(wait_ns), max(max_ns), sum(wakes) FROM futex_total"),
		   "27000 1089990 9001 18000");
	CHECK_TEXT(ask("SELECT sum(samples), sum(wait_ns) FROM futex_sample"), "9000 1089990");
	CHECK_TEXT(ask("SELECT tgid, comm, object FROM futex WHERE id = 100"), "100 job-0 [heap]");
	CHECK(number("SELECT count(*) FROM futex") < 3000, "%lld futexes", number("SELECT count(*) FROM futex"));
	CHECK_TEXT(ask("SELECT count(*), sum(address) FROM futex WHERE tgid = 0 AND comm = '(others)'"), "1 0");
	CHECK_TEXT(ask("SELECT ops FROM futex_total JOIN futex ON id = futex WHERE tgid = 0 AND comm = 'job-0'"),
		   "127");
	CHECK_TEXT(ask("SELECT count(*) FROM futex_total WHERE futex NOT IN (SELECT id FROM futex)"), "0");
}

/* Each command is another one, and in a cgroup of its own: one row has the lightest. */
static void tasks_of_many_names_are_folded(void)
{
	struct keeper keeper = {.keep_ns = 60 * SECOND, .max_bytes = 16 << 20};
	struct recording *recording = create(&keeper);
	char comm[16];

	for (int i = 0; i < GONE; i++) {
		snprintf(comm, sizeof(comm), "job-%d", i);
		CHECK(!recording_put(recording, cgroup, .id = 5000 + i, .path = comm), "cgroup");
		CHECK(!recording_put(recording, waiter, .tid = 1000 + i, .tgid = 1000 + i, .comm = comm,
				     .cgroup = 5000 + i),
		      "waiter");
		CHECK(!recording_put(recording, sample_total,
				     .waiter = recording_find_waiter(recording, 1000 + i, 1000 + i, comm, 5000 + i),
				     .lock = 2, .kind = 1, .samples = 1, .waits = 3, .wait_ns = i == 7 ? 5000 : 10),
		      "sample");
	}
	for (int i = 0; i < 9; i++) {
		CHECK(!recording_put(recording, interval, .id = i, .begin_ns = START + i * SECOND,
				     .end_ns = START + (i + 1) * SECOND),
		      "interval");
		CHECK(!recording_keep(recording, &keeper, START + (i + 1) * SECOND), "keep");
	}
	CHECK(!recording_finish(recording), "finish");
	CHECK_TEXT(ask("SELECT sum(samples), sum(waits), sum(wait_ns) FROM sample_total"), "9000 27000 94990");
	CHECK(number("SELECT count(*) FROM waiter") < 600, "%lld tasks", number("SELECT count(*) FROM waiter"));
	CHECK(number("SELECT count(*) FROM cgroup") < 600, "%lld cgroups", number("SELECT count(*) FROM cgroup"));
	CHECK_TEXT(ask("SELECT comm, cgroup FROM waiter JOIN sample_total ON waiter = id WHERE wait_ns = 5000"),
		   "job-7 5007");
	CHECK_TEXT(ask("SELECT count(*) FROM waiter WHERE comm = '(others)'"), "1");
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(nothing_is_asked_for), TEST(sums_are_as_before),  TEST(histograms_add_up),
		TEST(what_is_older_goes),   TEST(the_file_is_bounded), TEST(tasks_are_folded),
		TEST(locks_are_folded),     TEST(futexes_are_folded),  TEST(tasks_of_many_names_are_folded),
	};
	char command[PATH_MAX];
	int failed;

	if (argc > 1 && !strcmp(argv[1], "many")) {
		intervals = MANY;
		max_mib = MANY_MIB;
	}
	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/r.lockline", directory);
	failed = RUN_TESTS(tests);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command) || failed;
}
