// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes recordings and reads them again: rows as they were put, and no other file written in their place. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording/recording_rows.h"
#include "tap.h"
#include "unsynced.h"

static char directory[] = "/tmp/recording_test.XXXXXX", path[PATH_MAX], other[PATH_MAX];
/* What happens to the new file between its making and SQLite's opening. */
static void (*meanwhile)(void);

int __real_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs);

int __wrap_sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs)
{
	if (meanwhile)
		meanwhile();
	meanwhile = NULL;
	return __real_sqlite3_open_v2(name, db, flags, vfs);
}

/* Whether the file system has no place for what is to be written. */
static bool full;

int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (!full)
		return __real_fallocate(fd, mode, offset, length);
	errno = ENOSPC;
	return -1;
}

/* The answer to a query on the recording, as text; columns and rows with blanks between. */
static const char *ask(const char *query)
{
	static char answer[1024];
	sqlite3_stmt *row;
	size_t used = 0;
	sqlite3 *db;

	*answer = 0;
	if (__real_sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) ||
	    sqlite3_prepare_v2(db, query, -1, &row, NULL))
		return sqlite3_errmsg(db);
	while (sqlite3_step(row) == SQLITE_ROW)
		for (int i = 0; i < sqlite3_column_count(row); i++)
			used += snprintf(answer + used, sizeof(answer) - used, "%s%s", used ? " " : "",
					 (const char *)sqlite3_column_text(row, i) ?: "NULL");
	sqlite3_finalize(row);
	sqlite3_close(db);
	return answer;
}

static struct recording *create(void)
{
	struct recording *recording = NULL;

	unlink(path);
	CHECK(!recording_create(&recording, path), "create");
	return recording;
}

static void columns_in_their_places(void)
{
	struct recording *recording = create();

	CHECK(!recording_put_text(recording, "name", "value"), "text");
	CHECK(!recording_put_number(recording, "number", -5), "number");
	CHECK(!recording_put(recording, program, .name = "p", .signal = "s", .runs = recorded(0), .measured_runs = 2,
			     .measured_ns = 3, .recursion_misses = 4),
	      "known");
	CHECK(!recording_put(recording, program, .name = "q", .signal = "s", .measured_runs = 2), "unknown");
	CHECK(!recording_put(recording, cpu_pair, .first = 1, .second = 2, .transfer_ns = 0.5), "real");
	CHECK(!recording_put(recording, btf, .name = "b", .bytes = 9, .data = {"abc", 3}), "blob");
	CHECK(!recording_put(recording, btf, .name = "e"), "an empty blob is not NULL");
	CHECK(!recording_put(recording, lock, .id = 1, .address = 0xffffffff81000000ull, .name = "n", .instance = "",
			     .source = ""),
	      "an address");
	CHECK(!recording_finish(recording), "finish");
	CHECK_TEXT(ask("SELECT name, value, typeof(value) FROM meta ORDER BY name"),
		   "name value text number -5 integer");
	CHECK_TEXT(ask("SELECT * FROM program"), "p s 0 2 3 4 q s NULL 2 0 0");
	CHECK_TEXT(ask("SELECT * FROM cpu_pair"), "1 2 0.5 0.0 0 0");
	CHECK_TEXT(ask("SELECT name, bytes, data, length(data), typeof(data) FROM btf"), "b 9 abc 3 blob e 0  0 blob");
	CHECK_TEXT(ask("SELECT address FROM lock"), "-2130706432");
}

static void rows_that_add_up(void)
{
	struct recording *recording = create();

	for (int i = 1; i <= 2; i++) {
		CHECK(!recording_put(recording, wait_interval, .interval = 1, .cpu = 2, .lock = 3, .waits = i,
				     .wait_ns = 10 * i, .max_ns = 100 - i, .failed = 1, .histogram = {"ab", i}),
		      "%d", i);
		CHECK(!recording_put(recording, sample_total, .waiter = 1, .samples = 1, .waits = i, .wait_ns = 5),
		      "%d", i);
		CHECK(!recording_put(recording, lock_total, .lock = 1, .kind = 2, .waits = i), "%d", i);
		CHECK(!recording_put(recording, memory_wait, .line = 1, .records = i), "%d", i);
		CHECK(!recording_add_memory_wait(
			      recording, &(struct recorded_memory_wait){.line = 2, .records = i, .transfers = 1}),
		      "%d", i);
	}
	CHECK(!recording_finish(recording), "finish");
	CHECK_TEXT(ask("SELECT * FROM wait_interval"), "1 2 3 0 3 30 99 2 aab");
	CHECK_TEXT(ask("SELECT samples, waits, wait_ns FROM sample_total"), "2 3 10");
	CHECK_TEXT(ask("SELECT lock, kind, waits FROM lock_total"), "1 2 2");
	CHECK_TEXT(ask("SELECT line, records, transfers FROM memory_wait"), "1 2 0 2 3 2");
}

static void a_wait_in_progress_and_its_end(void)
{
	struct recording *recording = create();

	CHECK(!recording_put(recording, episode, .state = "in progress", .tid = 7, .begin_ns = 5, .wait_ns = 1,
			     .interrupts = "unknown", .interrupts_from = "", .cpus = {"x", 1}, .complete = 1,
			     .holder = 9, .holder_state = "D", .holder_from = "owner"),
	      "in progress");
	CHECK(!recording_age_episodes(recording), "age");
	CHECK(!recording_put(recording, episode, .outlier = 3, .state = "ended", .tid = 7, .begin_ns = 5, .wait_ns = 8,
			     .interrupts = "on", .interrupts_from = "kind", .complete = 0, .left_out = 2,
			     .holder_state = "", .holder_from = ""),
	      "ended");
	CHECK(!recording_put(recording, episode, .state = "in progress", .tid = 8, .interrupts = "",
			     .interrupts_from = "", .holder_state = "", .holder_from = ""),
	      "another");
	CHECK(!recording_age_episodes(recording), "age");
	CHECK(!recording_finish(recording), "finish");
	CHECK_TEXT(ask("SELECT outlier, state, wait_ns, interrupts, interrupts_from, cpus, complete, left_out, holder,"
		       " holder_state, holder_from FROM episode WHERE tid = 7"),
		   "3 ended 8 on kind x 0 2 9 D owner");
	CHECK_TEXT(ask("SELECT state FROM episode WHERE tid = 8"), "was in progress");
}

static void what_is_found(void)
{
	static const __u64 frames[] = {1, 2};
	struct recording *recording = create();
	__u64 dropped = 9;
	char name[32];

	CHECK(!recording_find_task(recording, 1, 2, "a"), "nobody");
	for (int i = 0; i < 2; i++)
		CHECK(!recording_put(recording, waiter, .tid = 1, .tgid = 2, .comm = "a", .cgroup = 3), "%d", i);
	CHECK(recording_find_waiter(recording, 1, 2, "a", 3) == 1, "with its cgroup");
	CHECK(!recording_find_waiter(recording, 1, 2, "a", 4), "another cgroup");
	CHECK(recording_find_task(recording, 1, 2, "a") == 1 && recording_find_task_by_tid(recording, 1) == 1 &&
		      recording_find_task_of_name(recording, 1, "a") == 1,
	      "in any");
	CHECK(!recording_put(recording, stack, .tgid = 0, .frames = {frames, sizeof(frames)}), "stack");
	CHECK(recording_find_stack(recording, 0, frames, sizeof(frames)) == 1, "found");
	CHECK(!recording_find_stack(recording, 0, frames, 8), "not another");
	CHECK(!recording_has_frame(recording, 0, 1), "no frame");
	CHECK(!recording_put(recording, frame, .tgid = 0, .address = 1, .symbol = "f", .module = ""), "frame");
	CHECK(recording_has_frame(recording, 0, 1) == 1, "frame");
	CHECK(!recording_lock_name(recording, 5, name, sizeof(name)) && !*name, "no lock");
	CHECK(!recording_put(recording, lock, .id = 5, .address = 6, .name = "n", .instance = "i", .source = ""),
	      "lock");
	CHECK(!recording_lock_title(recording, 5, name, sizeof(name)), "title");
	CHECK_TEXT(name, "n[i]");
	for (int i = 0; i < 5; i++)
		CHECK(!recording_put(recording, outlier, .interval = -1, .begin_ns = i, .wait_ns = i), "%d", i);
	CHECK(recording_last_outlier(recording) == 5, "numbered");
	CHECK(!recording_prune_outliers(recording, 2) && !recording_place_outliers(recording, 1), "begin 0 is gone");
	CHECK(!recording_trim_outliers(recording, 1, 3, &dropped) && dropped == 1, "%llu", dropped);
	CHECK(!recording_clear(recording, TABLE_FRAME) && !recording_has_frame(recording, 0, 1), "cleared");
	CHECK(!recording_finish(recording), "finish");
	CHECK_TEXT(ask("SELECT interval, wait_ns FROM outlier ORDER BY id"), "1 2 1 3 1 4");
	CHECK_TEXT(ask("SELECT count(*) FROM waiter"), "1");
}

static void becomes_a_link(void)
{
	unlink(path);
	CHECK(!symlink(other, path), "link");
}

static void becomes_another_file(void)
{
	unlink(path);
	CHECK(!link(other, path), "hard link");
}

static void put_in_its_place(void (*how)(void))
{
	struct recording *recording;
	struct stat status = {};

	unlink(path);
	close(open(other, O_CREAT | O_TRUNC | O_WRONLY, 0600));
	meanwhile = how;
	CHECK(recording_create(&recording, path) < 0, "it is refused");
	CHECK(!stat(other, &status) && !status.st_size, "and not written: %lld bytes", (long long)status.st_size);
	unlink(path);
}

static void a_link_in_its_place(void)
{
	put_in_its_place(becomes_a_link);
}

static void another_file_in_its_place(void)
{
	put_in_its_place(becomes_another_file);
}

static void put_interval(struct recording *recording, int id, int samples)
{
	CHECK(!recording_put(recording, interval, .id = id, .begin_ns = id, .end_ns = id + 1), "interval");
	for (int i = 0; i < samples; i++)
		CHECK(!recording_put(recording, sample_interval, .interval = id, .waiter = i, .samples = 1), "sample");
	CHECK(!recording_commit(recording), "commit");
}

/* Some 32 MiB, of rows that are large: SQLite takes as long for a small one. */
static void put_large_interval(struct recording *recording, int id)
{
	static const char histogram[400] = "a";

	for (int i = 0; i < 80000; i++)
		CHECK(!recording_put(recording, wait_interval, .interval = id, .lock = i, .waits = 1,
				     .histogram = {histogram, sizeof(histogram)}),
		      "wait");
	put_interval(recording, id, 10);
}

/* What finds no place waits in memory, and is written when there is one, or when it is too much. */
static void a_full_disk(void)
{
	struct recording *recording = create();
	int id = 1;

	full = true;
	/* Before anything is in the file there is nothing to go on with. */
	put_interval(recording, id++, 1);
	CHECK_TEXT(ask("SELECT count(*) FROM interval"), "1");
	put_interval(recording, id++, 10);
	put_interval(recording, id++, 10);
	CHECK_TEXT(ask("SELECT count(*) FROM interval"), "1");
	full = false;
	put_interval(recording, id++, 10);
	CHECK_TEXT(ask("SELECT count(*) FROM interval"), "4");
	full = true;
	put_interval(recording, id++, 10);
	CHECK_TEXT(ask("SELECT count(*) FROM interval"), "4");
	put_large_interval(recording, id++);
	CHECK_TEXT(ask("SELECT count(*) FROM interval"), "6");
	CHECK(!recording_finish(recording), "finish");
	full = false;
	CHECK_TEXT(ask("SELECT count(*), sum(samples) FROM sample_interval"), "51 51");
	CHECK_TEXT(ask("SELECT count(*), sum(waits) FROM wait_interval"), "80000 80000");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(columns_in_their_places),
		TEST(rows_that_add_up),
		TEST(a_wait_in_progress_and_its_end),
		TEST(what_is_found),
		TEST(a_link_in_its_place),
		TEST(another_file_in_its_place),
		TEST(a_full_disk),
	};
	char command[PATH_MAX];
	int failed;

	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/recording", directory);
	snprintf(other, sizeof(other), "%s/other", directory);
	failed = RUN_TESTS(tests);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command) ? 1 : failed;
}
