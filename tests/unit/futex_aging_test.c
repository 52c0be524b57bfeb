// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rows of futexes that are taken back while made-up programs write to them, and
 * futexes that are forgotten, in random order: each call must be stored exactly
 * once, and a futex that turns hot late must get a row and a name.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPUS        2
#define ONLINE_CPUS CPUS
#include "futex/futex_rows.h"
#include "grace_period.h"
#include "tap.h"

#define PER_CPU 64
#define NAMES   128
#define ROUNDS  600
/* More at a time than there are rows, one after the other. */
#define FUTEXES 20000
#define LATE    0x7f0000ff0000ull
#define GONE    77
#define FLOOD   100000
#define IDS     (FUTEXES * 4)

static struct futex_row table[CPUS * PER_CPU];
static struct futexes_known known;
static struct futex_rows rows;
static __u64 file[IDS], late_id;
static __u64 calls, shared_calls, to_nameless;

/* A program that has found its row and has not written to it yet. */
static struct futex_row *found;
static int waited_for, retired_writes;

bool __wrap_task_gone(__u32 id)
{
	return id == GONE || id >= FLOOD;
}

/* How often that was asked. */
static int ended_asked;

/* Processes of a flood, too. */
bool __wrap_task_ended(__u32 id)
{
	ended_asked++;
	return id == GONE || id >= FLOOD;
}

/* All of address 0x1000 are one futex of a file. */
void futex_place(__u32 tgid, __u64 address, struct futex_place *place)
{
	*place = (struct futex_place){.inode = address & 0x1000, .offset = 64};
}

/* As find_futex_row() has it. */
static struct futex_row *find(__u32 cpu, __u32 tgid, __u64 address, bool shared)
{
	__u64 key = futex_row_key(tgid, address);
	__u32 named = PER_CPU - 1, index = (key >> 32) * named >> 32;

	for (int probe = 0; probe < FUTEX_ROW_PROBES; probe++) {
		struct futex_row *row = &table[cpu * PER_CPU + index];

		if (!row->key) {
			row->key = key;
			row->tgid = tgid;
			row->address = address;
		}
		if (row->key == key) {
			row->flags = shared ? FUTEX_SHARED : 0;
			return row;
		}
		index += probe + 1;
		if (index >= named)
			index -= named;
	}
	to_nameless++;
	return &table[cpu * PER_CPU + named];
}

static void write_found(void)
{
	if (!found)
		return;
	CHECK(found->key || found == &table[PER_CPU - 1] || found == &table[2 * PER_CPU - 1],
	      "a call ends in a row that is free");
	retired_writes += found->key == FUTEX_ROW_RETIRED;
	if (rand() % 2)
		found->calls++;
	else
		found->wakes++;
	found->histogram[3]++;
	calls++;
	found = NULL;
}

static void programs_end(void)
{
	waited_for++;
	write_found();
}

static void store(struct futex *futex)
{
	struct futex_row sum;

	futex_rows_sum(&rows, futex, &sum);
	CHECK(sum.histogram[3] == sum.calls + sum.wakes, "%u in the histogram of %llu calls", sum.histogram[3],
	      sum.calls + sum.wakes);
	CHECK(futex->id > 0 && futex->id < IDS, "futex %lld", futex->id);
	CHECK(futex->key.address != LATE || !late_id || late_id == (__u64)futex->id, "it was named twice");
	if (futex->key.address == LATE)
		late_id = futex->id;
	file[futex->id % IDS] = futex->stored = sum.calls + sum.wakes;
}

static int forgotten_count;

static int forgotten(void *data, __s64 id)
{
	forgotten_count++;
	CHECK(id > 1 && id < known.next_id, "futex %lld is forgotten", id);
	return 0;
}

/* As futexes_flush() does. */
static __u64 flush(void)
{
	__u64 all = futex_rows_read(&rows);
	struct futex *futex, *next;

	known.unnamed = NULL;
	if (known.nameless.stored != known.nameless.calls)
		store(&known.nameless);
	HASH_ITER (by_key, known.by_key, futex, next)
		if (!futex->same_as && futex->stored != futex->calls)
			store(futex);
	futex_rows_age(&rows);
	CHECK(!futexes_forget(&known, forgotten, NULL), "forget");
	return all;
}

static void call(int round)
{
	__u64 address = 0x7f0000000000ull + 64ull * ((__u64)round * FUTEXES / ROUNDS + rand() % 6) * 2;
	__u32 tgid = rand() % 4 ? 100 : GONE;
	bool shared = false;

	write_found();
	if (round > ROUNDS - 60 && rand() % 2)
		address = LATE, tgid = 100;
	if (rand() % 16 == 0) {
		/* In each process at another address. */
		tgid = 200 + rand() % 8;
		address = 0x1000 | (__u64)tgid << 20;
		shared = true;
		shared_calls++;
	}
	found = find(rand() % CPUS, tgid, address, shared);
	if (rand() % 2)
		write_found();
}

static void churn(unsigned seed)
{
	__u64 stored = 0, all;

	srand(seed);
	memset(table, 0, sizeof(table));
	memset(file, 0, sizeof(file));
	calls = shared_calls = late_id = 0;
	found = NULL;
	futexes_known_open(&known, NAMES);
	CHECK(!futex_rows_open(&rows, &known, table, CPUS, PER_CPU), "no rows");
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = rand() % 16; i > 0; i--)
			call(round);
		flush();
		CHECK(HASH_CNT(by_key, known.by_key) <= NAMES, "more names than places");
	}
	write_found();
	all = flush();
	CHECK(all == calls, "%llu calls, not %llu", all, calls);
	for (int i = 0; i < IDS; i++)
		stored += file[i];
	CHECK(stored == calls, "%llu calls stored, not %llu", stored, calls);
	CHECK(file[late_id] > 60, "%llu calls of the late futex", file[late_id]);
	CHECK(file[1] < calls / 50, "%llu of %llu calls have no name", file[1], calls);
	CHECK(known.next_id > NAMES * 4 && forgotten_count, "no futex was forgotten");
	futex_rows_close(&rows);
	futexes_known_close(&known);
}

static void every_call_is_counted_once(void)
{
	for (unsigned seed = 1; seed <= 20; seed++)
		churn(seed);
	CHECK(waited_for > 0, "no row was taken back");
	CHECK(retired_writes > 0, "no program wrote to a row that was being taken back");
	CHECK(shared_calls > 0, "no futex was shared");
}

/* 32 processes that wake each other at 32 semaphores, on one CPU: a table that is as full as half. */
static void as_many_as_half_the_rows_find_one(void)
{
	static struct futex_row large[4096];
	int lost = 0;

	for (__u32 tgid = 4000; tgid < 4064; tgid++)
		for (int i = 0; i < 32; i++) {
			__u64 key = futex_row_key(tgid, 0x7f3210a4d000ull + 128 * i);
			__u32 named = 4095, index = (key >> 32) * named >> 32;
			int probe;

			for (probe = 0; probe < FUTEX_ROW_PROBES && large[index].key; probe++) {
				index += probe + 1;
				if (index >= named)
					index -= named;
			}
			if (probe < FUTEX_ROW_PROBES)
				large[index].key = key;
			else
				lost++;
		}
	CHECK(!lost, "%d of 2048 found no row among 4095", lost);
}

/* As futexes_drain() does. */
static void make_room(void)
{
	struct futex *futex, *next;

	known.unnamed = NULL;
	HASH_ITER (by_key, known.by_key, futex, next)
		if (futex->stored != futex_retired_calls(futex) && futex_is_left(futex)) {
			futex->first_row = 0;
			store(futex);
		}
	CHECK(!futexes_make_room(&known, forgotten, NULL), "no room");
}

/* Processes that live for one call, many times as many between two flushes as there are rows. */
static void rows_of_a_flood_are_taken_back_at_once(void)
{
	__u64 lost, hurried = 0;
	__u32 tgid = FLOOD;

	memset(table, 0, sizeof(table));
	memset(file, 0, sizeof(file));
	calls = to_nameless = 0;
	found = NULL;
	futexes_known_open(&known, NAMES);
	CHECK(!futex_rows_open(&rows, &known, table, CPUS, PER_CPU), "no rows");
	for (int look = 0; look < 200; look++) {
		for (int i = 0; i < PER_CPU / 8; i++) {
			found = find(0, tgid++, 0x1000000, false);
			write_found();
		}
		if (look == 60)
			lost = to_nameless;
		/* As the ring is read: a grace period later it has those of one look before. */
		if (futex_rows_hurry(&rows, to_nameless, 50000000ull * look))
			make_room();
	}
	lost = to_nameless - lost;
	CHECK(!lost, "%llu of %d calls found no row", lost, 140 * PER_CPU / 8);
	hurried = flush();
	CHECK(hurried == calls, "%llu calls, not %llu", hurried, calls);
	/* Names are fewer than the processes of 16 looks. */
	CHECK(file[1] <= to_nameless, "%llu calls have no name, and %llu found no row", file[1], to_nameless);
	futex_rows_close(&rows);
	futexes_known_close(&known);
}

/* On many CPUs: rings wait to be read while rows are looked at. */
static void a_large_table_is_looked_at_in_parts(void)
{
	enum { MANY_CPUS = 96, ALL = MANY_CPUS * PER_CPU, NAMED = ALL - MANY_CPUS, PART = 2048 };
	struct futex_row *many = calloc(ALL, sizeof(*many));
	__u64 left = 0;
	int looks = 0;

	futexes_known_open(&known, NAMES);
	CHECK(many && !futex_rows_open(&rows, &known, many, MANY_CPUS, PER_CPU), "no rows");
	for (__u32 i = 0; i < ALL; i++) {
		if ((i + 1) % PER_CPU)
			many[i] = (struct futex_row){
				.key = i + 2, .address = 0x1000000 + 8 * i, .tgid = FLOOD + i, .calls = 1};
	}
	/* One call was lost, and the looks are slow: it goes on until all rows were looked at. */
	for (;; looks++) {
		ended_asked = 0;
		if (!futex_rows_hurry(&rows, 1, 1500000000ull * looks))
			break;
		CHECK(ended_asked <= PART, "%d rows at one look", ended_asked);
	}
	CHECK(looks >= ALL / PART, "%d looks", looks);
	futex_rows_age(&rows);
	for (__u32 i = 0; i < ALL; i++)
		left += !!many[i].key;
	CHECK(!left, "%llu of %d rows are left", left, NAMED);
	CHECK(rows.calls == NAMED, "%llu calls, not %d", rows.calls, NAMED);
	futex_rows_close(&rows);
	futexes_known_close(&known);
	free(many);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(every_call_is_counted_once),
		TEST(as_many_as_half_the_rows_find_one),
		TEST(rows_of_a_flood_are_taken_back_at_once),
		TEST(a_large_table_is_looked_at_in_parts),
	};

	return RUN_TESTS(tests);
}
