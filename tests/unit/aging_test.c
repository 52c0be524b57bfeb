// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rows that are taken back while made-up programs write to them, in random
 * order: each wait must be in the totals, in the file's cells and in its
 * intervals exactly once, and a lock that turns hot late must get a row.
 */
#include <stdlib.h>
#include <unistd.h>
#include <sqlite3.h>

/* The programs may run on more than one, so that rows are taken back only after a grace period. */
#define ONLINE_CPUS 2
#include "grace_period.h"
#include "tap.h"
#include "unsynced.h"
#include "waits/totals.h"

#define ROWS   16
#define LOCKS  400
#define NAMES  64
#define ROUNDS 600
#define KIND   KIND_SPINLOCK

const char *const name_source_names[NAME_SOURCES] = {"unknown", [NAME_SLAB] = "slab"};

static struct wait_row rows[ROWS + KIND_COUNT];
static struct cpu_state state;
static const struct sizing sizing = {.cpus = 1, .named_rows = ROWS, .rows = ROWS + KIND_COUNT, .locks = NAMES};
static __u64 waits, to_others;

/* A program that has found its row and does not show it yet, and the waits that are in slots. */
static int found = -1, found_at;
static int retired_writes;

/* Addresses from here on are used again, by objects that show whose they are. */
#define REUSED 0xffff88a000000000ull

/* Which object is at such an address now: each gets a number. */
static __u32 objects[4];

struct cpu_state *maps_cpu(const struct maps *maps, __u32 cpu)
{
	return &state;
}

struct wait_row *maps_row(const struct maps *maps, __u32 cpu, __u32 index)
{
	return &rows[index];
}

/* Those of processes that have ended: the numbers below it. */
static __u32 ended;
static bool of_processes;

static void instance_of(__u64 address, char *out, size_t size)
{
	const __u32 object = objects[(address - REUSED) / 64 % 4];

	/* 0: of a process that ends. */
	snprintf(out, size, !object && of_processes ? "" : of_processes ? "pid %u" : "object %u", object);
}

bool __wrap_task_ended(__u32 id)
{
	return id < ended;
}

void lock_names_resolve(struct lock_names *names, const struct lock_hint *hint, struct lock_name *name)
{
	*name = (struct lock_name){.object = hint->address};
	snprintf(name->name, sizeof(name->name), "lock %llx", hint->address);
	if (hint->address < REUSED)
		return;
	name->source = NAME_SLAB;
	instance_of(hint->address, name->instance, sizeof(name->instance));
	name->orphan = !*name->instance;
}

bool lock_names_reused(struct lock_names *names, __u64 address, const struct lock_identity *was, const char *type,
		       __u32 offset, bool paused)
{
	char is[32];

	if (address < REUSED)
		return false;
	instance_of(address, is, sizeof(is));
	if (!*is)
		return false;
	return strcmp(is, was->instance);
}

/* As probe_rows() has it, without what makes it fast. */
static int find_row(__u64 lock)
{
	__u64 key = row_key(lock, KIND);
	int home = lock / 64 % ROWS;

	for (int i = 0; i < ROWS; i++) {
		int index = (home + i) % ROWS;

		if (rows[index].key == key)
			return index;
		if (!rows[index].key) {
			rows[index].key = key;
			state.rows_used++;
			return index;
		}
	}
	return ROWS + KIND;
}

static void put_in_slot(void)
{
	if (found < 0)
		return;
	state.spin[state.spin_depth].row = found;
	state.spin_depth++;
	found = -1;
}

static void begin(__u64 lock)
{
	put_in_slot();
	if (state.spin_depth == SPIN_DEPTH)
		return;
	found = find_row(lock);
}

static void end(void)
{
	struct wait_row *row;

	if (!state.spin_depth)
		return;
	row = &rows[state.spin[state.spin_depth - 1].row];
	CHECK(row->key || row >= rows + ROWS, "a wait ends in a row that is free");
	retired_writes += row->key == ROW_RETIRED;
	to_others += row >= rows + ROWS;
	row->wait_ns += 1000;
	row->histogram[histogram_bucket(1000)]++;
	row->waits++;
	waits++;
	state.spin_depth--;
}

static void programs_end(void)
{
	found_at++;
	put_in_slot();
}

static __s64 number(sqlite3 *db, const char *query)
{
	sqlite3_stmt *statement = NULL;
	__s64 result = -1;

	if (!sqlite3_prepare_v2(db, query, -1, &statement, NULL) && sqlite3_step(statement) == SQLITE_ROW)
		result = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return result;
}

static void check_file(const char *path)
{
	static const char *const sums[] = {
		"SELECT sum(waits) FROM lock_total",          "SELECT sum(waits) FROM cell_total",
		"SELECT sum(waits) FROM cpu_total",           "SELECT sum(waits) FROM wait_interval",
		"SELECT sum(wait_ns) / 1000 FROM cell_total", "SELECT sum(wait_ns) / 1000 FROM lock_total",
	};
	sqlite3 *db;

	CHECK(!sqlite3_open(path, &db), "cannot open the recording");
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		__s64 sum = number(db, sums[i]);

		CHECK(sum == (__s64)waits, "%s: %lld, not %llu", sums[i], sum, waits);
	}
	/* The lock of the last rounds has its name, and nearly all of its waits. */
	CHECK(number(db,
		     "SELECT sum(waits) FROM lock_total JOIN lock ON id = lock WHERE name = 'lock ffff888000ffff00'") >
		      60,
	      "the late lock has no name");
	CHECK(number(db, "SELECT count(*) FROM lock") > NAMES, "no name was forgotten");
	CHECK(!number(db, "SELECT count(*) FROM lock_total WHERE lock NOT IN (SELECT id FROM lock)"),
	      "waits for a lock that is not in the recording");
	sqlite3_close(db);
}

static void churn(unsigned seed)
{
	const struct maps maps = {.sizing = &sizing};
	char path[] = "/tmp/aging-XXXXXX", sidecar[sizeof(path) + 8];
	struct recording *recording = NULL;
	struct totals *totals = NULL;
	struct locks *locks = NULL;
	int fd = mkstemp(path);

	close(fd);
	unlink(path);
	srand(seed);
	memset(rows, 0, sizeof(rows));
	memset(&state, 0, sizeof(state));
	waits = to_others = 0;
	found = -1;
	CHECK(!recording_create(&recording, path), "no recording");
	CHECK(!locks_open(&locks, recording, NULL, NAMES), "no locks");
	CHECK(!totals_open(&totals, &maps, recording, locks), "no totals");
	for (int round = 0; totals && round < ROUNDS; round++) {
		int err;

		for (int i = rand() % 12; i > 0; i--) {
			__u64 lock = 0xffff888000000000ull + 64 * ((__u64)round * LOCKS / ROUNDS + rand() % 6);

			if (round > ROUNDS - 60 && i < 6)
				lock = 0xffff888000ffff00ull;
			/* Long forgotten, it comes back. */
			else if (round > ROUNDS / 2 && i == 7)
				lock = 0xffff888000000040ull;
			if (rand() % 2)
				begin(lock);
			else if (rand() % 2)
				put_in_slot();
			else
				end();
		}
		if (rand() % 8)
			while (state.spin_depth)
				end();
		err = totals_flush(totals, round);
		CHECK(!err, "flush %d: %d", round, err);
	}
	put_in_slot();
	while (state.spin_depth)
		end();
	CHECK(!totals_flush(totals, ROUNDS), "the last flush");
	CHECK(!recording_commit(recording), "no commit");
	totals_close(totals);
	locks_close(locks);
	check_file(path);
	recording_abandon(recording);
	for (const char *const *tail = (const char *const[]){"", "-wal", "-shm", NULL}; *tail; tail++) {
		snprintf(sidecar, sizeof(sidecar), "%s%s", path, *tail);
		unlink(sidecar);
	}
}

static void every_wait_is_counted_once(void)
{
	retired_writes = found_at = 0;
	for (unsigned seed = 1; seed <= 20; seed++)
		churn(seed);
	CHECK(found_at > 0, "no row was taken back");
	CHECK(retired_writes > 0, "no program wrote to a row that was being taken back");
}

/* One address after the other object: each is a lock of its own, with the waits that were for it. */
static void a_reused_address_is_another_lock(void)
{
	const struct maps maps = {.sizing = &sizing};
	char path[] = "/tmp/aging-XXXXXX", query[256], sidecar[sizeof(path) + 8];
	static __u32 wanted[4][40];
	struct recording *recording = NULL;
	struct totals *totals = NULL;
	struct locks *locks = NULL;
	int flush = 0, fd = mkstemp(path), err = 0;
	sqlite3 *db;

	close(fd);
	unlink(path);
	srand(15);
	memset(rows, 0, sizeof(rows));
	memset(&state, 0, sizeof(state));
	memset(wanted, 0, sizeof(wanted));
	waits = to_others = 0;
	found = -1;
	CHECK(!recording_create(&recording, path), "no recording");
	CHECK(!locks_open(&locks, recording, NULL, NAMES), "no locks");
	CHECK(!totals_open(&totals, &maps, recording, locks), "no totals");
	for (__u32 object = 0; totals && object < 40; object++) {
		objects[object % 4] = object;
		for (int active = 0; !err && active < 3; active++) {
			for (int k = 0; k < 4; k++) {
				/* Of the others, some go on and some pause: they are the same objects as before. */
				for (int i = k == (int)(object % 4) ? 1 + rand() % 5 : rand() % 3; i > 0; i--) {
					begin(REUSED + 64 * k);
					put_in_slot();
					end();
					wanted[k][objects[k]]++;
				}
			}
			err = totals_flush(totals, flush++);
		}
		/* The next object's address has a pause. */
		for (int pause = 0; !err && pause < 4; pause++) {
			for (int k = 0; k < 4; k++) {
				if (k == (int)((object + 1) % 4) || rand() % 2)
					continue;
				begin(REUSED + 64 * k);
				put_in_slot();
				end();
				wanted[k][objects[k]]++;
			}
			err = totals_flush(totals, flush++);
		}
	}
	CHECK(!err, "flush %d: %d", flush, err);
	CHECK(!recording_commit(recording), "no commit");
	CHECK(locks_reused_counts(locks)->found >= 36 && locks_reused_counts(locks)->found <= 39, "%llu reused",
	      locks_reused_counts(locks)->found);
	totals_close(totals);
	locks_close(locks);
	CHECK(!sqlite3_open(path, &db), "cannot open the recording");
	for (int k = 0; k < 4; k++) {
		for (int object = 0; object < 40; object++) {
			snprintf(query, sizeof(query),
				 "SELECT coalesce(sum(waits), 0) FROM lock_total JOIN lock ON id = lock WHERE name ="
				 " 'lock %llx' AND instance = 'object %d'",
				 REUSED + 64 * k, object);
			CHECK(number(db, query) == wanted[k][object], "place %d, object %d: %lld waits, not %u", k,
			      object, number(db, query), wanted[k][object]);
		}
	}
	CHECK(number(db, "SELECT sum(waits) FROM cell_total") == (__s64)waits, "cells");
	CHECK(number(db, "SELECT sum(waits) FROM wait_interval") == (__s64)waits, "intervals");
	sqlite3_close(db);
	recording_abandon(recording);
	for (const char *const *tail = (const char *const[]){"", "-wal", "-shm", NULL}; *tail; tail++) {
		snprintf(sidecar, sizeof(sidecar), "%s%s", path, *tail);
		unlink(sidecar);
	}
}

#define MANY 100

/* A flush in which all are waited for; how many are another lock than in the one before. */
static int meet_many(struct locks *locks)
{
	static struct known_lock *before[MANY];
	int others = 0;

	for (int i = 0; i < MANY; i++) {
		const struct lock_hint hint = {.address = REUSED + 64 * i, .kind = KIND};
		int err;
		struct known_lock *lock = locks_meet(locks, &hint, &err);

		CHECK(lock && !err, "lock %d: %d", i, err);
		others += lock != before[i];
		before[i] = lock;
	}
	CHECK(!locks_forget(locks), "forget");
	return others;
}

static void meet_many_reused(__u32 first, bool pause)
{
	char path[] = "/tmp/aging-XXXXXX", sidecar[sizeof(path) + 8];
	struct recording *recording = NULL;
	struct locks *locks = NULL;
	int fd = mkstemp(path), seen = 0;

	close(fd);
	unlink(path);
	CHECK(!recording_create(&recording, path), "no recording");
	CHECK(!locks_open(&locks, recording, NULL, 4 * MANY), "no locks");
	for (int i = 0; i < 4; i++)
		objects[i] = first ? first + i : 0;
	CHECK(meet_many(locks) == MANY, "they were met before");
	CHECK(!meet_many(locks), "they are the same");
	for (int i = 0; pause && i < 3; i++)
		CHECK(!locks_forget(locks), "forget");
	for (int i = 0; i < 4; i++)
		objects[i] = 20 + i;
	for (int i = 0; i < 6; i++)
		seen += meet_many(locks);
	CHECK(seen == MANY, "%d of %d are known to be others", seen, MANY);
	CHECK(!meet_many(locks), "they are the same again");
	locks_close(locks);
	recording_abandon(recording);
	for (const char *const *tail = (const char *const[]){"", "-wal", "-shm", NULL}; *tail; tail++) {
		snprintf(sidecar, sizeof(sidecar), "%s%s", path, *tail);
		unlink(sidecar);
	}
}

/* More than are asked about in one flush: the others' turn comes, though they do not pause again. */
static void many_that_were_reused_at_once(void)
{
	of_processes = false;
	meet_many_reused(10, true);
}

/* Whoever got the address waits there at once: that the process which the name tells has ended is enough. */
static void reused_without_a_pause(void)
{
	of_processes = true;
	ended = 20;
	meet_many_reused(10, false);
	of_processes = false;
	ended = 0;
}

/* Named while its process ended, of which nothing was shown any more: the next one has a name. */
static void a_lock_that_was_nobodys_is_the_next_ones(void)
{
	of_processes = true;
	meet_many_reused(0, false);
	of_processes = false;
}

int main(void)
{
	static const struct test tests[] = {
		TEST(many_that_were_reused_at_once),
		TEST(reused_without_a_pause),
		TEST(a_lock_that_was_nobodys_is_the_next_ones),
		TEST(every_wait_is_counted_once),
		TEST(a_reused_address_is_another_lock),
	};

	return RUN_TESTS(tests);
}
