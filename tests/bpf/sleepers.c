// SPDX-License-Identifier: GPL-2.0-or-later
/* Waits that sleep: how they nest, repeat and end, and the slots that their threads live in. */
#include "wait_test.h"

#include <errno.h>
#include <unistd.h>

void mutex_begins_often_and_ends_once(struct bench *bench)
{
	struct wait_row *row;

	run_begin(bench, LOCK(6), KIND_MUTEX_SPIN);
	run_begin(bench, LOCK(6), KIND_MUTEX);
	run_begin(bench, LOCK(6), KIND_MUTEX_SPIN);
	run_begin(bench, LOCK(6), KIND_MUTEX);
	CHECK(sleeper_of(bench, gettid()), "the waiter has no slot");
	run_end(bench, LOCK(6), 0);
	CHECK(!sleeper_of(bench, gettid()), "the slot is not free again");
	CHECK_EQUAL(bench->state->counters[COUNT_REPEATED], 3);
	row = row_of(bench, LOCK(6), KIND_MUTEX);
	CHECK(row && row->waits == 1, "it slept: one wait of kind mutex");
	CHECK_EQUAL(waits_of_all(bench), 1);
	run_begin(bench, LOCK(6), KIND_MUTEX_SPIN);
	run_end(bench, LOCK(6), 0);
	row = row_of(bench, LOCK(6), KIND_MUTEX_SPIN);
	CHECK(row && row->waits == 1, "it never slept: one wait of kind mutex-spin");
	CHECK_EQUAL(begins_of_all(bench), waits_of_all(bench) + bench->state->counters[COUNT_REPEATED]);
}

/* Memory for rows is scarce: a wait leaves the row that it ends in, and no other. */
void a_mutex_has_one_row(struct bench *bench)
{
	for (int i = 0; i < 3; i++) {
		run_begin(bench, LOCK(1), KIND_MUTEX_SPIN);
		run_begin(bench, LOCK(1), KIND_MUTEX);
		CHECK_EQUAL(bench->state->rows_used, 1); /* claimed by the begin, without the lock */
		run_begin(bench, LOCK(1), KIND_MUTEX_SPIN);
		run_end(bench, LOCK(1), 0);
	}
	CHECK_EQUAL(bench->state->rows_used, 1);
	CHECK(row_of(bench, LOCK(1), KIND_MUTEX)->waits == 3, "it slept");
	for (int i = 0; i < 3; i++) {
		run_begin(bench, LOCK(2), KIND_MUTEX_SPIN);
		run_end(bench, LOCK(2), 0);
	}
	CHECK_EQUAL(bench->state->rows_used, 2);
	CHECK(row_of(bench, LOCK(2), KIND_MUTEX_SPIN)->waits == 3, "it never slept");
	/* The first of each row, whichever begin it was. */
	CHECK_EQUAL(bench->state->events, 2);
	CHECK(row_of(bench, LOCK(1), KIND_MUTEX)->has_stack, "no stack of the one");
	CHECK(row_of(bench, LOCK(2), KIND_MUTEX_SPIN)->has_stack, "no stack of the other");
}

void sleeping_waits_nest(struct bench *bench)
{
	run_begin(bench, LOCK(8), KIND_RWSEM_WRITE);
	run_begin(bench, LOCK(9), KIND_MUTEX);
	run_begin(bench, LOCK(10), KIND_SPINLOCK);
	run_end(bench, LOCK(10), 0);
	run_end(bench, LOCK(9), 0);
	run_end(bench, LOCK(8), 0);
	CHECK_EQUAL(waits_of_all(bench), 3);
	CHECK_EQUAL(bench->state->counters[COUNT_NESTED], 1);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 0);
}

void lost_end_of_a_sleeping_wait(struct bench *bench)
{
	run_begin(bench, LOCK(11), KIND_RWSEM_READ);
	run_begin(bench, LOCK(11), KIND_RWSEM_READ);
	run_end(bench, LOCK(11), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 1);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK(!sleeper_of(bench, gettid()), "the slot is not free again");
}

void sleepers_without_slot_are_counted(struct bench *bench)
{
	__u32 home = gettid() & (TEST_SLEEP - 1), probe;

	/* Others live in all the places where this thread could. */
	for (probe = 0; probe < SLEEP_PROBES; probe++)
		bench->sleepers[(home + probe) & (TEST_SLEEP - 1)].tid = ~0u - probe;
	run_begin(bench, LOCK(12), KIND_MUTEX);
	run_end(bench, LOCK(12), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_NO_SLOT], 1);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 1);
	CHECK_EQUAL(waits_of_all(bench), 0);
}

void displaced_sleepers_are_found(struct bench *bench)
{
	__u32 home = gettid() & (TEST_SLEEP - 1);

	bench->sleepers[home].tid = ~0u;
	run_begin(bench, LOCK(13), KIND_MUTEX);
	CHECK_EQUAL(bench->sleepers[home].displaced, 1);
	/* The one that lived at home leaves; the displaced one must still be found. */
	bench->sleepers[home].tid = 0;
	run_begin(bench, LOCK(13), KIND_MUTEX);
	run_end(bench, LOCK(13), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_REPEATED], 1);
	CHECK_EQUAL(bench->sleepers[home].displaced, 0);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK(!sleeper_of(bench, gettid()), "the slot is not free again");
}

/* Whose slot stays, and what it costs those who find their home taken. */
static void check_kept(struct bench *bench, bool kept)
{
	const struct sleep_slot *slot = sleeper_of(bench, gettid());

	CHECK(!!slot == kept, "the slot is %s", slot ? "kept" : "free");
	if (slot) {
		CHECK_EQUAL(slot->depth, 0);
		CHECK_EQUAL(slot->tgid, (__u32)getpid() | SLEEP_KEPT);
	}
}

/* The second time a thread finds its home as it left it, it keeps it: of waits on the short way, which alone gain by it. */
void who_waits_again_keeps_the_slot(struct bench *bench)
{
	__u64 accounted;

	bench->state->keeps = 2;
	/* The first of a row takes a stack, and is no common wait. */
	run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
	check_kept(bench, false);
	run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
	check_kept(bench, plain_waits);
	CHECK_EQUAL(bench->state->keeps, plain_waits ? 1 : 2);
	/* Every way that a wait can go on and end leaves it kept, and each begin in one place. */
	run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
	check_kept(bench, plain_waits);
	run_begin(bench, LOCK(14), KIND_MUTEX);
	run_end(bench, LOCK(14), -EINTR);
	check_kept(bench, plain_waits);
	run_begin(bench, LOCK(14), KIND_MUTEX);
	run_begin(bench, LOCK(15), KIND_RWSEM_READ);
	run_begin(bench, LOCK(16), KIND_SPINLOCK);
	run_end(bench, LOCK(16), 0);
	run_end(bench, LOCK(15), 0);
	run_end(bench, LOCK(14), 0);
	check_kept(bench, plain_waits);
	run_wait(bench, LOCK(17), KIND_RWSEM_WRITE, 1000);
	check_kept(bench, plain_waits);
	/* An end without a begin, and a begin whose end is lost. */
	run_end(bench, LOCK(14), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 1);
	run_begin(bench, LOCK(17), KIND_RWSEM_WRITE);
	run_begin(bench, LOCK(17), KIND_RWSEM_WRITE);
	run_end(bench, LOCK(17), 0);
	check_kept(bench, plain_waits);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 1);
	CHECK_EQUAL(bench->state->keeps, plain_waits ? 1 : 2);
	accounted = waits_of_all(bench) + bench->state->counters[COUNT_ORPHANED];
	CHECK_EQUAL(begins_of_all(bench), accounted);
}

void few_slots_are_kept(struct bench *bench)
{
	for (int i = 0; i < 5; i++) {
		run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
		check_kept(bench, false);
	}
	CHECK_EQUAL(waits_of_all(bench), 5);
	/* Nor one that another process left: its threads come and go. */
	bench->state->keeps = 1;
	for (int i = 0; i < 3; i++) {
		bench->sleepers[gettid() & (TEST_SLEEP - 1)].tgid = getpid() + 1;
		run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
		check_kept(bench, false);
	}
	CHECK_EQUAL(bench->state->keeps, 1);
}

/* A slot that its thread keeps is no place for others, who are found elsewhere. */
void a_kept_slot_is_not_taken(struct bench *bench)
{
	struct sleep_slot *home = &bench->sleepers[gettid() & (TEST_SLEEP - 1)];

	home->tid = gettid() + TEST_SLEEP;
	home->tgid = getpid() | SLEEP_KEPT;
	bench->state->keeps = 1;
	for (int i = 0; i < 5; i++)
		run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
	CHECK_EQUAL(waits_of_all(bench), 5);
	CHECK_EQUAL(home->tid, (__u32)gettid() + TEST_SLEEP);
	CHECK_EQUAL(home->displaced, 0);
	CHECK(!sleeper_of(bench, gettid()), "the slot is not free again");
	/* The collector frees it once its thread is gone. */
	home->tgid &= ~SLEEP_KEPT;
	home->tid = 0;
	run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
	run_wait(bench, LOCK(14), KIND_MUTEX, 1000);
	check_kept(bench, plain_waits);
}
