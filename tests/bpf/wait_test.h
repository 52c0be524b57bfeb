/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The bench that the hot path's tests run on: one loaded object with small maps, and calls into it. */
#ifndef WAIT_TEST_H
#define WAIT_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <linux/types.h>

#include "bpf/lock_filter.h"
#include "bpf/lockline.h"
#include "bpf/memory.h"
#include "holders/holder_wakes.h"
#include "wait_test.skel.h"

#define TEST_ROWS         48 /* of which KIND_COUNT take the waits of unnamed locks */
#define TEST_RING         64
#define TEST_SLEEP        64
#define TEST_HOLDINGS     16
#define TEST_CONTEXT      16
#define TEST_IPI_CPUS     200 /* possible, as the programs' constant says */
#define TEST_SAMPLE       8
#define TEST_CPU          0
#define TASK_FILTER_WORDS (4194304 / 64) /* PID_MAX_LIMIT bits */
#define NEVER_OUTLIER     (~0ull)

/* Addresses as of kernel objects; each test takes its own. */
#define LOCK(n) (0xffff888000000000ull + (n)*4096ull)

/* What the filter by address lets in. */
#define ONE_LOCK       LOCK(900)
#define ONE_LOCK_BYTES 8
#define TEST_CALLERS   3

struct bench {
	struct wait_test_bpf *skeleton;
	struct cpu_state *state; /* of TEST_CPU */
	struct wait_row *rows;   /* of TEST_CPU */
	struct sleep_slot *sleepers;
	struct wait_event *events;       /* of TEST_CPU */
	__u64 *task_filter;              /* bits by tgid, then by tid */
	struct holding_record *holdings; /* of TEST_CPU */
	struct release_state *releases;
	struct hold_row *holds; /* of TEST_CPU */
	__u64 *focus;
	struct context_record *contexts; /* of TEST_CPU */
	struct context_state *context_state;
	__u64 *verdicts;
	struct lock_question *questions; /* of TEST_CPU */
	struct question_state *question_state;
	struct address_range *callers;
	struct memory_state *memory;          /* of TEST_CPU */
	struct memory_record *memory_records; /* of TEST_CPU */
};

struct settings {
	__u64 threshold_ns;
	__u32 begin_kinds;
	__u32 wait_kinds;
	bool filter_tasks;
	bool filter_locks; /* ONE_LOCK, and with filter_lock_names what has a verdict */
	bool filter_lock_names;
	bool filter_callers;
	bool holders;
	bool count_waiters;
	bool memory_alone; /* load what run_memory(), run_begin() and run_end() run, and no more */
};

/* Waits take the short way where the collector would let them. */
extern bool plain_waits;

extern int test_failures;
extern int test_checks;

#define CHECK(condition, ...)                                                    \
	do {                                                                     \
		test_checks++;                                                   \
		if (!(condition)) {                                              \
			test_failures++;                                         \
			printf("# %s:%d: %s: ", __FILE__, __LINE__, #condition); \
			printf(__VA_ARGS__);                                     \
			printf("\n");                                            \
		}                                                                \
	} while (0)

/* Equality, both sides shown. */
#define CHECK_EQUAL(left, right)                                                                          \
	do {                                                                                              \
		unsigned long long left_value = (left), right_value = (right);                            \
		CHECK(left_value == right_value, "%s is %llu, not %llu", #left, left_value, right_value); \
	} while (0)

void bench_open(struct bench *bench, const struct settings *settings);
/* As after bench_open() with the same settings; the verifier, which takes most of the time, is not asked again. */
void bench_clear(struct bench *bench, const struct settings *settings);
void bench_close(struct bench *bench);

void run_begin(struct bench *bench, __u64 lock, enum lock_kind kind);
void run_end(struct bench *bench, __u64 lock, int result);
/* Entry and exit of a function that waits for the lock; lock 0: an exit that does not know it. */
void run_enter(struct bench *bench, __u64 lock, enum lock_kind kind);
void run_leave(struct bench *bench, __u64 lock);
/* The same of a function that waits for a sleeping lock. */
void run_enter_sleeping(struct bench *bench, __u64 lock, enum lock_kind kind);
void run_leave_sleeping(struct bench *bench, __u64 lock, int result);
/* An unlock of a spinlock with this word; and a spinlock taken. */
void run_unlock(struct bench *bench, __u64 lock, __u32 word);
void run_context(struct bench *bench, enum context_type type, __u32 value, bool other);
void run_ipis(struct bench *bench, __u64 mask);
/* A memory sample as memory.bpf.h takes it; flags: MEMORY_INTERRUPTS_*. */
void run_memory(struct bench *bench, __u64 address, __u64 ip, __u64 data_src, __u32 weight, __u32 flags);
void run_locked(struct bench *bench, __u64 lock);
/* A begin and an end, wait_ns apart. */
void run_wait(struct bench *bench, __u64 lock, enum lock_kind kind, __u64 wait_ns);
__u32 run_bucket(struct bench *bench, __u64 ns);
/* Of a made-up stack (wait_test.bpf.c): depth in words, from a program's arguments to its end. */
void run_place_stack(struct bench *bench);
__u32 run_learn_stack(struct bench *bench, __u32 depth, __u32 count);
__u32 run_follow_stack(struct bench *bench, __u32 depth, __u32 most);
/* A bit each: an address on the task's stack, one so many bytes higher, and one elsewhere. */
int run_on_task_stack(struct bench *bench, __u64 higher);
int run_sum_of_walk(struct bench *bench, __u32 own, __u32 count);

/* The row of (lock, kind), or NULL. */
struct wait_row *row_of(struct bench *bench, __u64 lock, enum lock_kind kind);
struct wait_row *other_row_of(struct bench *bench, enum lock_kind kind);
/* The slot of a tid, or NULL. */
struct sleep_slot *sleeper_of(struct bench *bench, __u32 tid);
/* Waits of all rows. */
__u64 waits_of_all(const struct bench *bench);
__u64 begins_of_all(const struct bench *bench);

/* sleepers.c */
void mutex_begins_often_and_ends_once(struct bench *bench);
void a_mutex_has_one_row(struct bench *bench);
void sleeping_waits_nest(struct bench *bench);
void lost_end_of_a_sleeping_wait(struct bench *bench);
void sleepers_without_slot_are_counted(struct bench *bench);
void displaced_sleepers_are_found(struct bench *bench);
void who_waits_again_keeps_the_slot(struct bench *bench);
void few_slots_are_kept(struct bench *bench);
void a_kept_slot_is_not_taken(struct bench *bench);

/* known_stacks.c */
void a_walked_stack_is_known(struct bench *bench);
void another_caller_is_another_stack(struct bench *bench);
void a_first_frame_has_any_size(struct bench *bench);
void steps_of_two_stacks_make_a_third(struct bench *bench);
void stale_words_are_outvoted(struct bench *bench);
void a_last_frame_lies_at_the_end(struct bench *bench);
void the_first_caller_has_its_place(struct bench *bench);
void a_stack_with_a_missing_frame_is_not_known(struct bench *bench);
void a_walk_beside_a_known_stack(struct bench *bench);
void a_stack_of_an_interrupt_is_no_tasks(struct bench *bench);

/* slow_paths.c */
void slow_path_covers_tracepoints(struct bench *bench);
void slow_paths_nest(struct bench *bench);
void sleeping_path_covers_tracepoints(struct bench *bench);
void sleeping_path_without_tracepoints(struct bench *bench);
void sleeping_path_survives_lost_ends(struct bench *bench);
void sleeping_paths_nest(struct bench *bench);
void sleeping_paths_are_filtered(struct bench *bench);
void sleepers_stay_on_their_cpu(struct bench *bench);

/* lock_filters.c */
void locks_are_filtered_by_address(struct bench *bench);
void a_filtered_lock_inside_a_wanted_wait(struct bench *bench);
void locks_are_filtered_by_name(struct bench *bench);
void an_address_needs_no_name(struct bench *bench);
void a_storm_of_locks_asks_for_few_names(struct bench *bench);
void a_full_table_of_verdicts_lets_nobody_in(struct bench *bench);
void releases_are_filtered_by_lock(struct bench *bench);
void callers_are_filtered(struct bench *bench);

/* turns.c */
void releases_are_recorded_if_anyone_waits(struct bench *bench);
void ends_of_waits_are_holdings(struct bench *bench);
void holdings_overwrite_the_oldest(struct bench *bench);
void context_records_tell_who_and_when(struct bench *bench);
void context_overwrites_the_oldest(struct bench *bench);
void context_is_recorded_on_every_cpu(struct bench *bench);
void context_keeps_to_its_ring(struct bench *bench);
void context_of_ipis_to_several(struct bench *bench);
void context_of_ipis_to_many(struct bench *bench);
void shallow_slices_have_no_context(struct bench *bench);
void release_stacks_are_bounded(struct bench *bench);
void a_quarter_of_the_ring_wakes(struct bench *bench);
void releases_outside_of_the_window_are_not(struct bench *bench);
void waiters_are_counted_where_no_word_tells(struct bench *bench);
void holds_of_locks_in_focus(struct bench *bench);
void a_hold_whose_release_was_missed(struct bench *bench);
void a_hold_over_a_step_back(struct bench *bench);
void without_holders_nothing_is_written(struct bench *bench);

#endif /* WAIT_TEST_H */
