// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tests of the hot path: each is given empty maps, runs begins and ends
 * with made-up locks on one CPU, and looks at the shared memory as the collector
 * does.  Prints TAP.
 */
#include "wait_test.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int test_failures;
int test_checks;

static const struct settings everything = {.threshold_ns = NEVER_OUTLIER, .begin_kinds = ~0u, .wait_kinds = ~0u};

static void one_spinning_wait(struct bench *bench)
{
	struct wait_row *row;
	int i;

	run_begin(bench, LOCK(1), KIND_SPINLOCK);
	CHECK_EQUAL(bench->state->spin_depth, 1);
	CHECK_EQUAL(bench->state->spin[0].lock, LOCK(1));
	CHECK(bench->state->spin[0].task >> 63, "no task");
	run_end(bench, LOCK(1), 0);
	CHECK_EQUAL(bench->state->spin_depth, 0);
	row = row_of(bench, LOCK(1), KIND_SPINLOCK);
	CHECK(row, "the lock has no row");
	if (!row)
		return;
	CHECK_EQUAL(row->waits, 1);
	CHECK_EQUAL(row->wait_ns, 1000);
	CHECK_EQUAL(row->max_ns, 1000);
	CHECK_EQUAL(row->histogram[histogram_bucket(1000)], 1);
	CHECK_EQUAL(row->failed, 0);
	CHECK_EQUAL(bench->state->begins[KIND_SPINLOCK], 1);
	CHECK_EQUAL(bench->state->ends, 1);
	for (i = 0; i < COUNT_LAST; i++)
		CHECK_EQUAL(bench->state->counters[i], 0);
}

/* The current task is read where the kernel keeps it, once that was seen to be right. */
static void the_current_task_needs_no_helper(struct bench *bench)
{
	if (!bench->state->found_word)
		return; /* on kernels before 6.2, and on other machines */
	run_wait(bench, LOCK(1), KIND_SPINLOCK, 1000);
	CHECK_EQUAL(bench->state->current_word, bench->state->found_word);
	/* A word that is not the one is never used. */
	bench->state->current_word = 0;
	bench->state->found_word += 8;
	run_wait(bench, LOCK(2), KIND_SPINLOCK, 1000);
	CHECK_EQUAL(bench->state->current_word, 0);
}

static void kinds_of_one_lock_have_own_rows(struct bench *bench)
{
	enum lock_kind kind;

	for (kind = 0; kind <= KIND_UNKNOWN; kind++) {
		run_begin(bench, LOCK(7), kind);
		run_end(bench, LOCK(7), 0);
	}
	for (kind = 0; kind <= KIND_UNKNOWN; kind++) {
		struct wait_row *row = row_of(bench, LOCK(7), kind);

		CHECK(row && row->waits == 1, "kind %d", kind);
	}
	CHECK_EQUAL(bench->state->rows_used, KIND_UNKNOWN + 1);
}

static void failed_waits_are_told(struct bench *bench)
{
	struct wait_row *row;

	run_begin(bench, LOCK(2), KIND_MUTEX);
	run_end(bench, LOCK(2), -EINTR);
	run_begin(bench, LOCK(2), KIND_MUTEX);
	run_end(bench, LOCK(2), 0);
	row = row_of(bench, LOCK(2), KIND_MUTEX);
	CHECK(row, "the lock has no row");
	if (!row)
		return;
	CHECK_EQUAL(row->waits, 2);
	CHECK_EQUAL(row->failed, 1);
	CHECK_EQUAL((__u32)bench->events[0].result, (__u32)-EINTR);
}

static void spinning_waits_nest(struct bench *bench)
{
	int depth;

	for (depth = 0; depth < SPIN_DEPTH; depth++)
		run_begin(bench, LOCK(depth), KIND_SPINLOCK);
	CHECK_EQUAL(bench->state->spin_depth, SPIN_DEPTH);
	for (depth = SPIN_DEPTH - 1; depth >= 0; depth--)
		run_end(bench, LOCK(depth), 0);
	CHECK_EQUAL(bench->state->spin_depth, 0);
	CHECK_EQUAL(bench->state->counters[COUNT_NESTED], SPIN_DEPTH - 1);
	CHECK_EQUAL(bench->state->counters[COUNT_TOO_DEEP], 0);
	CHECK_EQUAL(waits_of_all(bench), SPIN_DEPTH);
	for (depth = 0; depth < SPIN_DEPTH; depth++) {
		struct wait_row *row = row_of(bench, LOCK(depth), KIND_SPINLOCK);

		CHECK(row && row->wait_ns == (2ull * (SPIN_DEPTH - 1 - depth) + 1) * 1000, "depth %d", depth);
	}
}

static void too_deep_is_counted(struct bench *bench)
{
	__u64 counted;
	int depth;

	for (depth = 0; depth <= SPIN_DEPTH; depth++)
		run_begin(bench, LOCK(depth), KIND_SPINLOCK);
	for (depth = SPIN_DEPTH; depth >= 0; depth--)
		run_end(bench, LOCK(depth), 0);
	counted = bench->state->counters[COUNT_TOO_DEEP] + bench->state->counters[COUNT_ORPHANED];
	CHECK(bench->state->counters[COUNT_TOO_DEEP] > 0, "none is too deep");
	CHECK_EQUAL(begins_of_all(bench), waits_of_all(bench) + counted);
	CHECK_EQUAL(bench->state->ends, waits_of_all(bench) + bench->state->counters[COUNT_UNMATCHED]);
	CHECK_EQUAL(bench->state->spin_depth, 0);
}

static void outer_wait_outlives_a_lost_end(struct bench *bench)
{
	run_begin(bench, LOCK(1), KIND_RWLOCK_WRITE);
	run_begin(bench, LOCK(2), KIND_SPINLOCK);
	run_end(bench, LOCK(1), 0);
	CHECK_EQUAL(bench->state->spin_depth, 0);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 1);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK(row_of(bench, LOCK(1), KIND_RWLOCK_WRITE)->waits == 1, "the outer wait is lost");
}

static void lost_end_of_a_spinning_wait(struct bench *bench)
{
	struct wait_row *row;

	run_begin(bench, LOCK(3), KIND_SPINLOCK);
	bench->skeleton->bss->clock_ns += 3600ull * 1000000000;
	run_begin(bench, LOCK(3), KIND_SPINLOCK);
	run_end(bench, LOCK(3), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 1);
	row = row_of(bench, LOCK(3), KIND_SPINLOCK);
	CHECK(row && row->waits == 1 && row->max_ns == 1000, "the lost wait became one of an hour");
	CHECK_EQUAL(bench->state->spin_depth, 0);
}

static void end_without_begin(struct bench *bench)
{
	run_end(bench, LOCK(4), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 1);
	CHECK_EQUAL(waits_of_all(bench), 0);
	run_begin(bench, LOCK(4), KIND_SPINLOCK);
	run_end(bench, LOCK(5), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 2);
	run_end(bench, LOCK(4), 0);
	CHECK_EQUAL(waits_of_all(bench), 1);
}

static void kinds_left_out_have_no_rows(struct bench *bench)
{
	run_begin(bench, LOCK(1), KIND_MUTEX_SPIN);
	run_end(bench, LOCK(1), 0);
	run_begin(bench, LOCK(2), KIND_MUTEX);
	run_end(bench, LOCK(2), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 1);
	CHECK_EQUAL(bench->state->rows_used, 1);
	CHECK(!row_of(bench, LOCK(1), KIND_MUTEX_SPIN), "a row for a wait that is left out");
	CHECK(row_of(bench, LOCK(2), KIND_MUTEX), "no row for one that is not");
	/* One that spins first takes its stack then, for the row that it may end in. */
	for (int i = 0; i < 2; i++) {
		run_begin(bench, LOCK(3), KIND_MUTEX_SPIN);
		run_begin(bench, LOCK(3), KIND_MUTEX);
		run_end(bench, LOCK(3), 0);
	}
	CHECK_EQUAL(bench->state->rows_used, 2);
	CHECK_EQUAL(bench->state->events, 2);
	CHECK(row_of(bench, LOCK(3), KIND_MUTEX)->has_stack, "no stack");
	CHECK_EQUAL(begins_of_all(bench), waits_of_all(bench) + bench->state->counters[COUNT_FILTERED] +
						  bench->state->counters[COUNT_REPEATED]);
}

/* Of a full table the waits of mutexes go to the rows of unnamed locks, and few take stacks. */
static void mutexes_of_a_full_table(struct bench *bench)
{
	__u64 events;

	for (int i = 0; i < 2 * TEST_ROWS; i++)
		run_wait(bench, LOCK(100 + i), KIND_RWSEM_WRITE, 1000);
	CHECK_EQUAL(bench->state->rows_used, TEST_ROWS - KIND_COUNT);
	events = bench->state->events;
	for (int i = 0; i < TEST_SAMPLE; i++)
		run_wait(bench, LOCK(400 + i), KIND_MUTEX_SPIN, 1000);
	CHECK_EQUAL(other_row_of(bench, KIND_MUTEX_SPIN)->waits, TEST_SAMPLE);
	CHECK_EQUAL(bench->state->events - events, 2); /* its first, and one of a period */
}

static void full_table_loses_names_not_time(struct bench *bench)
{
	const int locks = 3 * TEST_ROWS;
	__u64 wait_ns = 0;
	int i;

	for (i = 0; i < locks; i++)
		run_wait(bench, LOCK(100 + i), KIND_RWSEM_WRITE, 1000 + i);
	for (i = 0; i < TEST_ROWS; i++)
		wait_ns += bench->rows[i].wait_ns;
	CHECK_EQUAL(waits_of_all(bench), locks);
	CHECK_EQUAL(wait_ns, 1000ull * locks + (__u64)locks * (locks - 1) / 2);
	CHECK(other_row_of(bench, KIND_RWSEM_WRITE)->waits >= (__u64)(locks - (TEST_ROWS - KIND_COUNT)),
	      "the row of unnamed locks holds too little");
	CHECK_EQUAL(bench->state->counters[COUNT_TABLE_FULL], other_row_of(bench, KIND_RWSEM_WRITE)->waits);
	CHECK_EQUAL(other_row_of(bench, KIND_SPINLOCK)->waits, 0);
	CHECK(bench->state->rows_used <= TEST_ROWS - KIND_COUNT, "%llu rows used",
	      (unsigned long long)bench->state->rows_used);
}

static void histogram_boundaries(struct bench *bench)
{
	__u32 before = 0, bucket;
	int shift, quarter;
	__u64 ns;

	for (shift = 0; shift < 64; shift++) {
		for (quarter = 0; quarter < 4; quarter++) {
			ns = shift < 2 ? 1ull << shift : (4ull + quarter) << (shift - 2);
			bucket = run_bucket(bench, ns);
			CHECK_EQUAL(bucket, histogram_bucket(ns));
			CHECK_EQUAL(run_bucket(bench, ns - 1), histogram_bucket(ns - 1));
			CHECK(bucket >= before && bucket < HISTOGRAM_BUCKETS, "%llu ns in bucket %u after %u",
			      (unsigned long long)ns, bucket, before);
			/* In the covered range each quarter of an octave opens a bucket. */
			if (shift >= HISTOGRAM_FIRST_SHIFT && shift < HISTOGRAM_LAST_SHIFT)
				CHECK_EQUAL(bucket, run_bucket(bench, ns - 1) + 1);
			before = bucket;
		}
	}
	CHECK_EQUAL(run_bucket(bench, 0), 0);
	CHECK_EQUAL(run_bucket(bench, 63), 0);
	CHECK_EQUAL(run_bucket(bench, 64), 1);
	CHECK_EQUAL(run_bucket(bench, 1ull << HISTOGRAM_LAST_SHIFT), HISTOGRAM_OVERFLOW);
	CHECK_EQUAL(run_bucket(bench, ~0ull), HISTOGRAM_OVERFLOW);
}

static void histogram_takes_each_wait(struct bench *bench)
{
	struct wait_row *row;
	__u64 in_buckets = 0;
	int i;

	for (i = 0; i < 100; i++)
		run_wait(bench, LOCK(20), KIND_SPINLOCK, i * i * 37ull);
	row = row_of(bench, LOCK(20), KIND_SPINLOCK);
	CHECK(row, "the lock has no row");
	if (!row)
		return;
	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		in_buckets += row->histogram[i];
	CHECK_EQUAL(in_buckets, 100);
	CHECK_EQUAL(row->max_ns, 99 * 99 * 37ull);
	CHECK_EQUAL(row->wait_ns, 37ull * 328350);
}

/* Adds up the events that are still in the ring. */
static void sum_events(struct bench *bench, __u64 *waits, __u64 *wait_ns)
{
	int i;

	*waits = *wait_ns = 0;
	for (i = 0; i < TEST_RING; i++) {
		if (!bench->events[i].sequence)
			continue;
		*waits += bench->events[i].weight;
		*wait_ns += bench->events[i].weight_ns;
	}
}

static void weights_add_up(struct bench *bench)
{
	__u64 waits, wait_ns;
	struct wait_row *row;
	int i, n;

	/* At every step, also between two samples. */
	for (n = 1, i = 0; n <= 200; n++) {
		for (; i < n; i++)
			run_wait(bench, LOCK(30), KIND_MUTEX, 1000 + i);
		row = row_of(bench, LOCK(30), KIND_MUTEX);
		sum_events(bench, &waits, &wait_ns);
		CHECK_EQUAL(waits + row->pending_waits, (__u64)n);
		CHECK_EQUAL(wait_ns + row->pending_ns, row->wait_ns);
	}
	/* The first, and then one of TEST_SAMPLE. */
	CHECK_EQUAL(bench->state->events, 1 + 200 / TEST_SAMPLE);
}

static void outliers_stand_for_themselves(struct bench *bench)
{
	__u64 waits, wait_ns, outliers = 0;
	struct wait_row *row;
	int i;

	for (i = 0; i < 100; i++)
		run_wait(bench, LOCK(31), KIND_MUTEX, i % 10 == 9 ? 5000000 : 1000);
	row = row_of(bench, LOCK(31), KIND_MUTEX);
	sum_events(bench, &waits, &wait_ns);
	CHECK_EQUAL(waits + row->pending_waits, 100);
	CHECK_EQUAL(wait_ns + row->pending_ns, row->wait_ns);
	for (i = 0; i < TEST_RING; i++) {
		if (!bench->events[i].sequence || !(bench->events[i].flags & EVENT_OUTLIER))
			continue;
		outliers++;
		CHECK_EQUAL(bench->events[i].weight, 1);
		CHECK_EQUAL(bench->events[i].weight_ns, 5000000);
		CHECK_EQUAL(bench->events[i].policy, sched_getscheduler(0));
		/* task_struct.prio of a task that is not real time. */
		CHECK_EQUAL(bench->events[i].priority, 120 + getpriority(PRIO_PROCESS, 0));
	}
	CHECK_EQUAL(outliers, 10);
}

static void ring_overwrites_the_oldest(struct bench *bench)
{
	const __u64 count = 3 * TEST_RING + 5;
	__u64 i, position;

	for (i = 0; i < count; i++)
		run_wait(bench, LOCK(32), KIND_MUTEX, 2000000 + i);
	CHECK_EQUAL(bench->state->events, count);
	for (i = 0; i < TEST_RING; i++) {
		position = bench->events[i].sequence - 1;
		CHECK_EQUAL(position % TEST_RING, i);
		CHECK(position >= count - TEST_RING && position < count, "position %llu", (unsigned long long)position);
		CHECK_EQUAL(bench->events[i].wait_ns, 2000000 + position);
		CHECK_EQUAL(bench->events[i].tid, (__u32)gettid());
	}
}

static void kinds_are_filtered(struct bench *bench)
{
	run_begin(bench, LOCK(40), KIND_SPINLOCK);
	run_end(bench, LOCK(40), 0);
	run_begin(bench, LOCK(41), KIND_RWSEM_WRITE);
	run_end(bench, LOCK(41), 0);
	/* Let in at begin because it may yet sleep; it does not. */
	run_begin(bench, LOCK(42), KIND_MUTEX_SPIN);
	run_end(bench, LOCK(42), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 2);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK(row_of(bench, LOCK(41), KIND_RWSEM_WRITE), "the wanted kind is missing");
	CHECK_EQUAL(begins_of_all(bench), 3);
	CHECK(!sleeper_of(bench, gettid()), "the slot is not free again");
}

/* One bit of the filter: processes in its first half, threads in its second. */
static void set_task(struct bench *bench, __u32 half, __u32 id, bool wanted)
{
	__u64 *word = &bench->task_filter[half * TASK_FILTER_WORDS + id / 64];
	__u64 bit = 1ull << id % 64;

	*word = wanted ? *word | bit : *word & ~bit;
}

static void tasks_are_filtered(struct bench *bench)
{
	const enum lock_kind kinds[] = {KIND_SPINLOCK, KIND_MUTEX};
	__u64 waits = 0, filtered = 0;
	int half, i;

	for (i = 0; i < 2; i++) {
		for (half = 0; half < 2; half++) {
			__u32 own = half ? gettid() : getpid();

			/* Neighbours of ours in the map are somebody else. */
			set_task(bench, half, own + 1, true);
			set_task(bench, half, own - 1, true);
			set_task(bench, half, own ^ 64, true);
			run_wait(bench, LOCK(50), kinds[i], 1000);
			CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], ++filtered);
			set_task(bench, half, own, true);
			run_wait(bench, LOCK(50), kinds[i], 1000);
			CHECK_EQUAL(waits_of_all(bench), ++waits);
			set_task(bench, half, own, false);
		}
	}
	CHECK_EQUAL(begins_of_all(bench), waits + filtered);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], filtered);
}

static void other_cpus_are_filtered(struct bench *bench)
{
	bench->state->begin_kinds = 0;
	run_wait(bench, LOCK(51), KIND_SPINLOCK, 1000);
	run_wait(bench, LOCK(51), KIND_MUTEX, 1000);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 2);
	CHECK_EQUAL(waits_of_all(bench), 0);
	CHECK_EQUAL(begins_of_all(bench), 2);
}

#define TOKENS 4

static void tokens_limit_stacks(struct bench *bench)
{
	__u64 waits, wait_ns;
	struct wait_row *row;
	int i;

	/* First waits leave some tokens to locks that are waited for again. */
	bench->state->stack_tokens = STACK_RESERVE + TOKENS;
	for (i = 0; i < 3 * TOKENS; i++)
		run_wait(bench, LOCK(60 + i), KIND_SPINLOCK, 2000);
	CHECK_EQUAL(bench->state->events, TOKENS);
	CHECK_EQUAL(bench->state->stack_tokens, STACK_RESERVE);
	/* A row that went without takes its stack at its next wait; one that has it does not. */
	bench->state->stack_tokens = 2;
	run_wait(bench, LOCK(60), KIND_SPINLOCK, 2000);
	CHECK_EQUAL(bench->state->events, TOKENS);
	run_wait(bench, LOCK(60 + TOKENS), KIND_SPINLOCK, 2000);
	CHECK_EQUAL(bench->state->events, TOKENS + 1);
	CHECK_EQUAL(bench->events[TOKENS].lock, LOCK(60 + TOKENS));
	CHECK_EQUAL(bench->events[TOKENS].weight, 2);
	/* A storm in a period that suited an idle machine: bounded, and no weight is lost. */
	bench->state->sample_mask = 0;
	bench->state->stack_tokens = TOKENS;
	for (i = 0; i < 100; i++)
		run_wait(bench, LOCK(90), KIND_MUTEX, 2000);
	row = row_of(bench, LOCK(90), KIND_MUTEX);
	CHECK_EQUAL(bench->state->events, 2 * TOKENS + 1);
	CHECK_EQUAL(row->pending_waits, 100 - TOKENS);
	bench->state->stack_tokens = 1;
	run_wait(bench, LOCK(90), KIND_MUTEX, 2000);
	sum_events(bench, &waits, &wait_ns);
	CHECK_EQUAL(waits, TOKENS + 2 + 101);
}

/* A slot that a lost end left behind gives nobody a wait of hours. */
static void stale_slot_gives_no_wait(struct bench *bench)
{
	run_begin(bench, LOCK(83), KIND_SPINLOCK);
	bench->state->spin[0].task = 1;
	bench->skeleton->bss->clock_ns += 3600ull * 1000000000;
	run_end(bench, LOCK(83), 0);
	CHECK_EQUAL(waits_of_all(bench), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 1);
	CHECK_EQUAL(bench->state->spin_depth, 0);
	/* Nor does a slot that is being filled. */
	run_begin(bench, LOCK(83), KIND_SPINLOCK);
	bench->state->spin[0].begin_ns = 0;
	run_end(bench, LOCK(83), 0);
	CHECK_EQUAL(waits_of_all(bench), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 1);
}

static const struct settings one_task = {
	.threshold_ns = NEVER_OUTLIER,
	.begin_kinds = ~0u,
	.wait_kinds = ~0u,
	.filter_tasks = true,
};
static const struct settings outliers = {.threshold_ns = 1000000, .begin_kinds = ~0u, .wait_kinds = ~0u};
static const struct settings two_kinds = {
	.threshold_ns = NEVER_OUTLIER,
	.begin_kinds = 1 << KIND_RWSEM_WRITE | 1 << KIND_MUTEX | 1 << KIND_MUTEX_SPIN,
	.wait_kinds = 1 << KIND_RWSEM_WRITE | 1 << KIND_MUTEX,
};

static const struct settings one_lock = {
	.threshold_ns = NEVER_OUTLIER, .begin_kinds = ~0u, .wait_kinds = ~0u, .filter_locks = true, .holders = true};
static const struct settings named_locks = {
	.threshold_ns = NEVER_OUTLIER,
	.begin_kinds = ~0u,
	.wait_kinds = ~0u,
	.filter_locks = true,
	.filter_lock_names = true,
};
static const struct settings callers = {
	.threshold_ns = NEVER_OUTLIER, .begin_kinds = ~0u, .wait_kinds = ~0u, .filter_callers = true};
static const struct settings holders = {
	.threshold_ns = NEVER_OUTLIER, .begin_kinds = ~0u, .wait_kinds = ~0u, .holders = true};
static const struct settings counted_waiters = {
	.threshold_ns = NEVER_OUTLIER, .begin_kinds = ~0u, .wait_kinds = ~0u, .holders = true, .count_waiters = true};

static const struct test {
	const char *name;
	void (*run)(struct bench *bench);
	const struct settings *settings;
} tests[] = {
#define TEST(function, settings)               \
	{                                      \
#function, function, &settings \
	}
	TEST(one_spinning_wait, everything),
	TEST(the_current_task_needs_no_helper, everything),
	TEST(kinds_of_one_lock_have_own_rows, everything),
	TEST(failed_waits_are_told, everything),
	TEST(spinning_waits_nest, everything),
	TEST(too_deep_is_counted, everything),
	TEST(outer_wait_outlives_a_lost_end, everything),
	TEST(lost_end_of_a_spinning_wait, everything),
	TEST(end_without_begin, everything),
	TEST(mutex_begins_often_and_ends_once, everything),
	TEST(a_mutex_has_one_row, everything),
	TEST(kinds_left_out_have_no_rows, two_kinds),
	TEST(mutexes_of_a_full_table, everything),
	TEST(sleeping_waits_nest, everything),
	TEST(lost_end_of_a_sleeping_wait, everything),
	TEST(sleepers_without_slot_are_counted, everything),
	TEST(displaced_sleepers_are_found, everything),
	TEST(who_waits_again_keeps_the_slot, everything),
	TEST(few_slots_are_kept, everything),
	TEST(a_kept_slot_is_not_taken, everything),
	TEST(full_table_loses_names_not_time, everything),
	TEST(histogram_boundaries, everything),
	TEST(histogram_takes_each_wait, everything),
	TEST(weights_add_up, everything),
	TEST(outliers_stand_for_themselves, outliers),
	TEST(ring_overwrites_the_oldest, outliers),
	TEST(tokens_limit_stacks, everything),
	TEST(a_walked_stack_is_known, everything),
	TEST(another_caller_is_another_stack, everything),
	TEST(a_first_frame_has_any_size, everything),
	TEST(steps_of_two_stacks_make_a_third, everything),
	TEST(stale_words_are_outvoted, everything),
	TEST(a_last_frame_lies_at_the_end, everything),
	TEST(the_first_caller_has_its_place, everything),
	TEST(a_stack_with_a_missing_frame_is_not_known, everything),
	TEST(a_walk_beside_a_known_stack, everything),
	TEST(a_stack_of_an_interrupt_is_no_tasks, everything),
	TEST(slow_path_covers_tracepoints, everything),
	TEST(slow_paths_nest, everything),
	TEST(sleeping_path_covers_tracepoints, everything),
	TEST(sleeping_path_without_tracepoints, everything),
	TEST(sleeping_path_survives_lost_ends, everything),
	TEST(sleeping_paths_nest, everything),
	TEST(sleeping_paths_are_filtered, two_kinds),
	TEST(sleepers_stay_on_their_cpu, everything),
	TEST(stale_slot_gives_no_wait, outliers),
	TEST(kinds_are_filtered, two_kinds),
	TEST(tasks_are_filtered, one_task),
	TEST(other_cpus_are_filtered, everything),
	TEST(locks_are_filtered_by_address, one_lock),
	TEST(a_filtered_lock_inside_a_wanted_wait, one_lock),
	TEST(locks_are_filtered_by_name, named_locks),
	TEST(an_address_needs_no_name, named_locks),
	TEST(a_storm_of_locks_asks_for_few_names, named_locks),
	TEST(a_full_table_of_verdicts_lets_nobody_in, named_locks),
	TEST(releases_are_filtered_by_lock, one_lock),
	TEST(callers_are_filtered, callers),
	TEST(releases_are_recorded_if_anyone_waits, holders),
	TEST(ends_of_waits_are_holdings, holders),
	TEST(holdings_overwrite_the_oldest, holders),
	TEST(release_stacks_are_bounded, holders),
	TEST(a_quarter_of_the_ring_wakes, holders),
	TEST(releases_outside_of_the_window_are_not, holders),
	TEST(waiters_are_counted_where_no_word_tells, counted_waiters),
	TEST(holds_of_locks_in_focus, holders),
	TEST(a_hold_whose_release_was_missed, holders),
	TEST(a_hold_over_a_step_back, holders),
	TEST(without_holders_nothing_is_written, everything),
	TEST(context_records_tell_who_and_when, everything),
	TEST(context_overwrites_the_oldest, everything),
	TEST(context_is_recorded_on_every_cpu, everything),
	TEST(context_keeps_to_its_ring, everything),
	TEST(context_of_ipis_to_several, everything),
	TEST(context_of_ipis_to_many, everything),
	TEST(shallow_slices_have_no_context, everything),
};

/* Those that are loaded: one for all tests of the same settings. */
static struct loaded {
	const struct settings *settings;
	struct bench bench;
} loaded[sizeof(tests) / sizeof(tests[0])];

static struct bench *bench_of(const struct settings *settings)
{
	struct loaded *one = loaded;

	while (one->settings && one->settings != settings)
		one++;
	if (one->settings) {
		bench_clear(&one->bench, settings);
	} else {
		bench_open(&one->bench, settings);
		one->settings = settings;
	}
	return &one->bench;
}

int main(int argc, char **argv)
{
	const int count = sizeof(tests) / sizeof(tests[0]);
	int failed = 0, i;
	cpu_set_t cpu;

	/* --long-way: as if more than waits were recorded. */
	plain_waits = !(argc > 1 && !strcmp(argv[1], "--long-way"));
	/* From elsewhere the programs would run in an interrupt of another task. */
	CPU_ZERO(&cpu);
	CPU_SET(TEST_CPU, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu)) {
		printf("Bail out! cannot run on CPU %d\n", TEST_CPU);
		return 1;
	}
	printf("1..%d\n", count);
	for (i = 0; i < count; i++) {
		struct bench *bench = bench_of(tests[i].settings);

		test_failures = 0;
		tests[i].run(bench);
		printf("%s %d - %s\n", test_failures ? "not ok" : "ok", i + 1, tests[i].name);
		failed += test_failures > 0;
	}
	for (i = 0; loaded[i].settings; i++)
		bench_close(&loaded[i].bench);
	printf("# %d checks\n", test_checks);
	return failed ? 1 : 0;
}
