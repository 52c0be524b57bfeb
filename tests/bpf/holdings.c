// SPDX-License-Identifier: GPL-2.0-or-later
/* Contended releases, ends of waits and holds, as --holders and --holds write them. */
#include "wait_test.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

/* Of a spinlock: held; held with a waiter on the pending byte; held with a queue. */
#define HELD    1u
#define PENDING 0x101u
#define QUEUED  0x40001u

void releases_are_recorded_if_anyone_waits(struct bench *bench)
{
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(bench->releases->holdings, 0);
	run_unlock(bench, LOCK(1), PENDING);
	run_unlock(bench, LOCK(2), QUEUED);
	CHECK_EQUAL(bench->releases->holdings, 2);
	CHECK_EQUAL(bench->holdings[0].sequence, 1);
	CHECK_EQUAL(bench->holdings[0].lock, LOCK(1));
	CHECK_EQUAL(bench->holdings[0].flags, HOLDING_RELEASE);
	CHECK_EQUAL(bench->holdings[0].kind, KIND_SPINLOCK);
	CHECK_EQUAL(bench->holdings[0].tgid, getpid());
	CHECK_EQUAL(bench->holdings[0].begin_ns, 0);
	CHECK_EQUAL(bench->holdings[1].lock, LOCK(2));
	CHECK_EQUAL(bench->holdings[1].time_ns - bench->holdings[0].time_ns, 1000);
	CHECK(!strcmp(bench->holdings[0].comm, "wait_test"), "%.16s", bench->holdings[0].comm);
}

void ends_of_waits_are_holdings(struct bench *bench)
{
	run_wait(bench, LOCK(3), KIND_SPINLOCK, 5000);
	run_wait(bench, LOCK(4), KIND_SEMAPHORE, 7000);
	CHECK_EQUAL(bench->releases->holdings, 2);
	CHECK_EQUAL(bench->holdings[0].flags, 0);
	CHECK_EQUAL(bench->holdings[0].lock, LOCK(3));
	CHECK_EQUAL(bench->holdings[0].time_ns - bench->holdings[0].begin_ns, 5000);
	CHECK_EQUAL(bench->holdings[0].tid, gettid());
	CHECK_EQUAL(bench->holdings[0].owner_tid, 0);
	CHECK_EQUAL(bench->holdings[1].kind, KIND_SEMAPHORE);
	CHECK_EQUAL(bench->holdings[1].time_ns - bench->holdings[1].begin_ns, 7000);
	CHECK_EQUAL(waits_of_all(bench), 2);
}

void holdings_overwrite_the_oldest(struct bench *bench)
{
	for (int i = 0; i < TEST_HOLDINGS + 5; i++)
		run_unlock(bench, LOCK(i), PENDING);
	CHECK_EQUAL(bench->releases->holdings, TEST_HOLDINGS + 5);
	for (int i = 0; i < TEST_HOLDINGS; i++) {
		__u64 position = i < 5 ? TEST_HOLDINGS + i : i;

		CHECK_EQUAL(bench->holdings[i].sequence, position + 1);
		CHECK_EQUAL(bench->holdings[i].lock, LOCK(position));
	}
}

/* At each quarter of the ring, and never when it is nearly full alone: who is woken needs time. */
void a_quarter_of_the_ring_wakes(struct bench *bench)
{
	struct holder_wakes wakes;
	struct pollfd ready = {.events = POLLIN};

	CHECK_EQUAL(
		holder_wakes_open(&wakes, bpf_map__fd(bench->skeleton->maps.holding_wakes), libbpf_num_possible_cpus()),
		0);
	ready.fd = wakes.fd;
	CHECK(wakes.fd >= 0, "the kernel lets programs wake us");
	/* Twice round the ring. */
	for (int i = 1; i <= 2 * TEST_HOLDINGS; i++) {
		const bool due = i % (TEST_HOLDINGS / WAKE_PARTS) == 0;

		run_unlock(bench, LOCK(1), PENDING);
		/* It comes by an interrupt: at once, or never. */
		CHECK(poll(&ready, 1, due ? 10000 : 0) == due, "after %d turns", i);
		holder_wakes_clear(&wakes);
		CHECK(poll(&ready, 1, 0) == 0, "cleared after %d turns", i);
	}
	/* Ends of waits too. */
	for (int i = 0; i < TEST_HOLDINGS / WAKE_PARTS; i++)
		run_wait(bench, LOCK(3), KIND_SPINLOCK, 5000);
	CHECK(poll(&ready, 1, 10000) == 1, "by ends of waits");
	holder_wakes_close(&wakes);
}

void release_stacks_are_bounded(struct bench *bench)
{
	for (int i = 0; i < RELEASE_TOKENS + 3; i++)
		run_unlock(bench, LOCK(1), PENDING);
	for (int i = 0; i < RELEASE_TOKENS + 3; i++)
		CHECK_EQUAL(bench->holdings[i].stack, i < RELEASE_TOKENS ? i + 1 : 0);
	CHECK_EQUAL(bench->releases->stack_tokens, 0);
}

void releases_outside_of_the_window_are_not(struct bench *bench)
{
	bench->state->begin_kinds = 0;
	run_unlock(bench, LOCK(1), PENDING);
	CHECK_EQUAL(bench->releases->holdings, 0);
}

void waiters_are_counted_where_no_word_tells(struct bench *bench)
{
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(bench->releases->holdings, 0);
	run_enter(bench, LOCK(1), KIND_SPINLOCK);
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(bench->releases->holdings, 1);
	CHECK_EQUAL(bench->holdings[0].flags, HOLDING_RELEASE);
	run_leave(bench, LOCK(1));
	CHECK_EQUAL(bench->releases->holdings, 2);
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(bench->releases->holdings, 2);
	/* A filtered waiter is neither counted nor taken off. */
	bench->state->begin_kinds = 1u << KIND_MUTEX;
	run_enter(bench, LOCK(1), KIND_SPINLOCK);
	run_leave(bench, LOCK(1));
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(bench->releases->holdings, 2);
}

static struct hold_row *holds_of(struct bench *bench, __u64 lock)
{
	return &bench->holds[focus_slot(lock)];
}

void holds_of_locks_in_focus(struct bench *bench)
{
	run_locked(bench, LOCK(1));
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->holds, 0);
	bench->focus[focus_slot(LOCK(1))] = LOCK(1);
	run_locked(bench, LOCK(1));
	bench->skeleton->bss->clock_ns += 9000;
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->holds, 1);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->hold_ns, 10000);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->max_ns, 10000);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->histogram[histogram_bucket(10000)], 1);
	/* An unlock without its lock, begun before the recording. */
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->holds, 1);
	CHECK_EQUAL(bench->releases->holds_lost, 0);
}

void a_hold_whose_release_was_missed(struct bench *bench)
{
	__u64 inner = LOCK(2);

	for (int i = 3; focus_slot(inner) == focus_slot(LOCK(1)); i++)
		inner = LOCK(i);
	bench->focus[focus_slot(LOCK(1))] = LOCK(1);
	bench->focus[focus_slot(inner)] = inner;
	run_locked(bench, LOCK(1));
	run_locked(bench, inner);
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->holds, 1);
	CHECK_EQUAL(bench->releases->holds_lost, 1);
	CHECK_EQUAL(bench->releases->hold_depth, 0);
	for (int i = 0; i <= HOLD_DEPTH; i++)
		run_locked(bench, inner);
	CHECK_EQUAL(bench->releases->holds_lost, 1 + HOLD_DEPTH);
	run_unlock(bench, inner, HELD);
	CHECK_EQUAL(holds_of(bench, inner)->hold_ns, 1000);
}

void a_hold_over_a_step_back(struct bench *bench)
{
	bench->focus[focus_slot(LOCK(1))] = LOCK(1);
	run_locked(bench, LOCK(1));
	bench->skeleton->bss->clock_ns -= 5000;
	run_unlock(bench, LOCK(1), HELD);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->holds, 1);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->hold_ns, 0);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->max_ns, 0);
	CHECK_EQUAL(holds_of(bench, LOCK(1))->histogram[0], 1);
}

void without_holders_nothing_is_written(struct bench *bench)
{
	run_wait(bench, LOCK(3), KIND_SPINLOCK, 5000);
	run_wait(bench, LOCK(3), KIND_MUTEX, 5000);
	CHECK_EQUAL(bench->releases->holdings, 0);
	CHECK_EQUAL(waits_of_all(bench), 2);
}
