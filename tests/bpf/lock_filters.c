// SPDX-License-Identifier: GPL-2.0-or-later
/* Filters by lock and by caller: who is let in, who asks for a name, and that nothing is left of the others. */
#include "wait_test.h"

static void nothing_is_left(struct bench *bench)
{
	CHECK_EQUAL(waits_of_all(bench), 0);
	CHECK_EQUAL(bench->state->rows_used, 0);
	CHECK_EQUAL(bench->state->events, 0);
	CHECK_EQUAL(bench->state->spin_depth, 0);
}

/* A wait on each way into the programs. */
static void wait_everywhere(struct bench *bench, __u64 lock)
{
	run_wait(bench, lock, KIND_SPINLOCK, 2000);
	run_wait(bench, lock, KIND_MUTEX, 2000);
	run_enter(bench, lock, KIND_SPINLOCK);
	run_begin(bench, lock, KIND_SPINLOCK);
	run_end(bench, lock, 0);
	run_leave(bench, lock);
	run_enter_sleeping(bench, lock, KIND_RWSEM_WRITE);
	run_leave_sleeping(bench, lock, 0);
}

void locks_are_filtered_by_address(struct bench *bench)
{
	wait_everywhere(bench, ONE_LOCK - 1);
	wait_everywhere(bench, ONE_LOCK + ONE_LOCK_BYTES);
	nothing_is_left(bench);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 10);
	CHECK_EQUAL(bench->state->counters[COUNT_UNNAMED], 0);
	CHECK_EQUAL(bench->question_state->asked, 0);
	wait_everywhere(bench, ONE_LOCK);
	wait_everywhere(bench, ONE_LOCK + ONE_LOCK_BYTES - 1);
	CHECK_EQUAL(waits_of_all(bench), 8);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 10);
}

void a_filtered_lock_inside_a_wanted_wait(struct bench *bench)
{
	struct wait_row *row;

	run_begin(bench, ONE_LOCK, KIND_RWLOCK_WRITE);
	run_begin(bench, LOCK(2), KIND_SPINLOCK);
	run_end(bench, LOCK(2), 0);
	run_end(bench, ONE_LOCK, 0);
	row = row_of(bench, ONE_LOCK, KIND_RWLOCK_WRITE);
	CHECK(row && row->waits == 1 && row->wait_ns == 3000, "the outer wait is not whole");
	CHECK_EQUAL(bench->state->rows_used, 1);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 0);
}

static void answer(struct bench *bench, __u64 lock, enum verdict verdict)
{
	for (__u32 probe = 0; probe < VERDICT_PROBES; probe++) {
		__u64 *word = &bench->verdicts[verdict_slot(lock, probe)];

		if (*word != verdict_word(lock, VERDICT_ASKED))
			continue;
		*word = verdict_word(lock, verdict);
		return;
	}
	CHECK(false, "nobody asked for %llx", (unsigned long long)lock);
}

void locks_are_filtered_by_name(struct bench *bench)
{
	run_wait(bench, LOCK(3), KIND_SPINLOCK, 2000);
	run_wait(bench, LOCK(3), KIND_SPINLOCK, 2000);
	run_wait(bench, LOCK(4), KIND_MUTEX, 2000);
	nothing_is_left(bench);
	/* One question for each lock, with what names it. */
	CHECK_EQUAL(bench->question_state->asked, 2);
	CHECK_EQUAL(bench->questions[0].lock, LOCK(3));
	CHECK_EQUAL(bench->questions[0].sequence, 1);
	CHECK_EQUAL(bench->questions[1].lock, LOCK(4));
	CHECK_EQUAL(bench->questions[1].kind, KIND_MUTEX);
	CHECK(bench->questions[1].kernel_frames > 0, "a question without a stack");
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 3);
	CHECK_EQUAL(bench->state->counters[COUNT_UNNAMED], 3);
	answer(bench, LOCK(3), VERDICT_WANTED);
	answer(bench, LOCK(4), VERDICT_UNWANTED);
	wait_everywhere(bench, LOCK(3));
	wait_everywhere(bench, LOCK(4));
	CHECK_EQUAL(waits_of_all(bench), 4);
	CHECK(row_of(bench, LOCK(3), KIND_SPINLOCK) && !row_of(bench, LOCK(4), KIND_MUTEX), "the wrong lock has a row");
	CHECK_EQUAL(bench->question_state->asked, 2);
	CHECK_EQUAL(bench->state->counters[COUNT_UNNAMED], 3);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 8);
}

void an_address_needs_no_name(struct bench *bench)
{
	run_wait(bench, ONE_LOCK, KIND_SPINLOCK, 2000);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK_EQUAL(bench->question_state->asked, 0);
}

void a_storm_of_locks_asks_for_few_names(struct bench *bench)
{
	for (int i = 0; i < 100; i++)
		run_wait(bench, LOCK(1000 + i), KIND_SPINLOCK, 2000);
	nothing_is_left(bench);
	CHECK_EQUAL(bench->question_state->asked, QUESTION_TOKENS);
	CHECK_EQUAL(bench->state->counters[COUNT_UNNAMED], 100);
	bench->question_state->tokens = QUESTION_TOKENS;
	run_wait(bench, LOCK(1099), KIND_SPINLOCK, 2000);
	CHECK_EQUAL(bench->question_state->asked, QUESTION_TOKENS + 1);
}

void a_full_table_of_verdicts_lets_nobody_in(struct bench *bench)
{
	for (int i = 0; i < VERDICT_SLOTS; i++)
		bench->verdicts[i] = verdict_word(LOCK(100000 + i), VERDICT_UNWANTED);
	run_wait(bench, LOCK(5), KIND_SPINLOCK, 2000);
	nothing_is_left(bench);
	CHECK_EQUAL(bench->question_state->asked, 0);
	CHECK_EQUAL(bench->state->counters[COUNT_UNNAMED], 1);
}

void releases_are_filtered_by_lock(struct bench *bench)
{
	run_unlock(bench, LOCK(6), 1 << 8 | 1);
	CHECK_EQUAL(bench->releases->holdings, 0);
	run_unlock(bench, ONE_LOCK, 1 << 8 | 1);
	CHECK_EQUAL(bench->releases->holdings, 1);
}

/* Of the kernel's addresses and of no other: this stack has such functions alone. */
void callers_are_filtered(struct bench *bench)
{
	bench->callers[0] = (struct address_range){1, 2};
	bench->callers[1] = (struct address_range){4096, 8192};
	bench->callers[2] = (struct address_range){1ull << 63, (1ull << 63) + 1};
	wait_everywhere(bench, LOCK(7));
	nothing_is_left(bench);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 5);
	bench->callers[2].end = ~0ull;
	wait_everywhere(bench, LOCK(7));
	CHECK_EQUAL(waits_of_all(bench), 4);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 5);
}
