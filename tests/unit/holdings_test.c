// SPDX-License-Identifier: GPL-2.0-or-later
/* Made-up turns whose holders, hand-offs and bypasses are known. */
#include <stdlib.h>

#include "holders/holdings.h"
#include "tap.h"

#define LOCK  0xffff888000001000ull
#define OTHER 0xffff888000002000ull

static struct holdings *holdings;

static void open_holdings(void)
{
	holdings_close(holdings);
	holdings_open(&holdings, 64, 512);
}

static void release(__u64 lock, __u64 time, __u32 tid, __s64 stack)
{
	struct holding_record holding = {.lock = lock,
					 .time_ns = time,
					 .tid = tid,
					 .tgid = tid,
					 .flags = HOLDING_RELEASE,
					 .kind = KIND_UNKNOWN,
					 .stack = stack != 0,
					 .comm = "holder"};

	holdings_release(holdings, &holding, stack);
}

static void waited(__u64 lock, __u64 begin, __u64 end, __u32 tid, __u32 kind)
{
	struct holding_record holding = {.lock = lock, .begin_ns = begin, .time_ns = end, .tid = tid, .kind = kind};

	holdings_wait(holdings, &holding);
}

struct found {
	struct caused caused[512];
	struct fairness fairness[16];
	int caused_count, fairness_count;
	int fail_at;
} found;

static int visit_caused(const struct caused *caused, void *data)
{
	if (found.fail_at && found.caused_count + 1 == found.fail_at)
		return -5;
	found.caused[found.caused_count++ % 512] = *caused;
	return 0;
}

static int visit_fairness(const struct fairness *fairness, void *data)
{
	found.fairness[found.fairness_count++ % 16] = *fairness;
	return 0;
}

static void look(void)
{
	memset(&found, 0, sizeof(found));
	holdings_changed(holdings, visit_caused, visit_fairness, NULL);
}

/* What the task with that tid caused; 0: holders that are not known. */
static struct caused caused_by(__u64 lock, __u32 tid, __s64 stack)
{
	for (int i = 0; i < found.caused_count && i < 512; i++)
		if (found.caused[i].lock == lock && found.caused[i].stack == stack &&
		    holdings_holder(holdings, found.caused[i].holder)->tid == tid)
			return found.caused[i];
	return (struct caused){};
}

static void one_holder_is_charged_up_to_its_release_and_the_rest_is_the_hand_off(void)
{
	struct caused caused;

	open_holdings();
	release(LOCK, 900, 7, 0);
	release(LOCK, 1500, 7, 0);
	waited(LOCK, 1000, 1520, 8, KIND_SPINLOCK);
	look();
	caused = caused_by(LOCK, 7, 0);
	CHECK(caused.ns == 500 && caused.waits == 1 && caused.max_ns == 500, "%llu ns", caused.ns);
	CHECK(caused.releases == 2, "%llu", caused.releases);
	CHECK(found.fairness_count == 1 && found.fairness[0].handoff_ns == 20 && found.fairness[0].handoffs == 1,
	      "%llu", found.fairness[0].handoff_ns);
	CHECK(found.fairness[0].wait_ns == 520 && !found.fairness[0].overtaken, "%llu", found.fairness[0].overtaken);
}

static void a_queue_in_order_is_charged_in_parts_and_overtakes_nobody(void)
{
	open_holdings();
	release(LOCK, 100, 1, 0);
	waited(LOCK, 10, 105, 2, KIND_SPINLOCK);
	release(LOCK, 200, 2, 0);
	waited(LOCK, 20, 205, 3, KIND_SPINLOCK);
	release(LOCK, 300, 3, 0);
	waited(LOCK, 30, 305, 4, KIND_SPINLOCK);
	look();
	CHECK(caused_by(LOCK, 1, 0).ns == 90 + 80 + 70, "%llu", caused_by(LOCK, 1, 0).ns);
	CHECK(caused_by(LOCK, 2, 0).ns == 100 + 100, "%llu", caused_by(LOCK, 2, 0).ns);
	CHECK(caused_by(LOCK, 3, 0).ns == 100, "%llu", caused_by(LOCK, 3, 0).ns);
	CHECK(caused_by(LOCK, 1, 0).waits == 3, "%llu", caused_by(LOCK, 1, 0).waits);
	CHECK(!found.fairness[0].bypasses, "%llu", found.fairness[0].bypasses);
}

static void a_task_that_comes_later_and_is_served_first_overtakes(void)
{
	open_holdings();
	release(LOCK, 100, 1, 0);
	waited(LOCK, 50, 105, 3, KIND_SPINLOCK);
	release(LOCK, 200, 3, 0);
	release(LOCK, 300, 1, 0);
	release(LOCK, 400, 1, 0);
	waited(LOCK, 10, 405, 2, KIND_SPINLOCK);
	look();
	CHECK(found.fairness[0].overtaken == 1, "%llu", found.fairness[0].overtaken);
	CHECK(found.fairness[0].bypasses == 3 && found.fairness[0].max_bypasses == 3, "%llu",
	      found.fairness[0].bypasses);
	CHECK(found.fairness[0].retakes == 1, "%llu", found.fairness[0].retakes);
	CHECK(caused_by(LOCK, 1, 0).waits == 2, "a holder counts once for each wait: %llu",
	      caused_by(LOCK, 1, 0).waits);
}

static void a_waiter_between_two_releases_is_no_retake(void)
{
	open_holdings();
	for (int i = 0; i < 10; i++) {
		release(LOCK, 100 * i + 90, 1, 0);
		waited(LOCK, 100 * i + 50, 100 * i + 95, 2, KIND_SPINLOCK);
	}
	look();
	CHECK(!found.fairness[0].retakes, "%llu", found.fairness[0].retakes);
	CHECK(caused_by(LOCK, 1, 0).ns == 400 && caused_by(LOCK, 1, 0).waits == 10, "%llu", caused_by(LOCK, 1, 0).ns);
}

static void shared_locks_are_not_judged_for_bypasses(void)
{
	open_holdings();
	for (int i = 0; i < 5; i++)
		release(LOCK, 100 * i + 100, i, 0);
	waited(LOCK, 10, 505, 9, KIND_RWSEM_WRITE);
	look();
	CHECK(found.fairness[0].waits == 1 && !found.fairness[0].bypasses, "%llu", found.fairness[0].bypasses);
}

static void without_a_release_the_owner_or_the_readers_are_charged(void)
{
	struct holding_record holding = {
		.lock = LOCK, .begin_ns = 10, .time_ns = 110, .tid = 2, .owner_tid = 42, .kind = KIND_MUTEX};

	open_holdings();
	holdings_wait(holdings, &holding);
	holding.owner_tid = 0;
	holding.flags = HOLDING_READERS;
	holding.kind = KIND_RWSEM_WRITE;
	holding.lock = OTHER;
	holdings_wait(holdings, &holding);
	holding.flags = 0;
	holding.time_ns = 210;
	holdings_wait(holdings, &holding);
	look();
	CHECK(caused_by(LOCK, 42, 0).ns == 100, "%llu", caused_by(LOCK, 42, 0).ns);
	for (int i = 0; i < found.caused_count && i < 512; i++) {
		const struct caused *caused = &found.caused[i];

		if (caused->lock != OTHER)
			continue;
		CHECK(caused->holder == HOLDER_READERS || caused->holder == HOLDER_UNKNOWN, "%u", caused->holder);
		CHECK(caused->ns == (caused->holder == HOLDER_READERS ? 100 : 200), "%llu", caused->ns);
	}
	CHECK(found.caused_count == 3, "%d", found.caused_count);
	CHECK(found.fairness[0].handoffs == 0, "%llu", found.fairness[0].handoffs);
}

static void an_owner_that_releases_later_is_one_holder(void)
{
	struct holding_record holding = {
		.lock = LOCK, .begin_ns = 10, .time_ns = 110, .tid = 2, .owner_tid = 42, .kind = KIND_MUTEX};

	open_holdings();
	holdings_wait(holdings, &holding);
	look();
	release(LOCK, 200, 42, 0);
	waited(LOCK, 150, 205, 2, KIND_MUTEX);
	holding.begin_ns = 300;
	holding.time_ns = 310;
	holdings_wait(holdings, &holding);
	look();
	CHECK(found.caused_count == 1, "%d", found.caused_count);
	CHECK(caused_by(LOCK, 42, 0).ns == 100 + 50 + 10 && caused_by(LOCK, 42, 0).waits == 3, "%llu",
	      caused_by(LOCK, 42, 0).ns);
	CHECK_TEXT(holdings_holder(holdings, found.caused[0].holder)->comm, "holder");
}

static void the_parts_of_a_wait_and_its_hand_off_are_the_whole_wait(void)
{
	__u64 time = 1000, charged = 0, waits = 0, handoffs = 0;

	open_holdings();
	srand(1);
	for (int i = 0; i < 20000; i++) {
		__u64 begin = time - rand() % 3000 % time;

		time += 1 + rand() % 500;
		release(LOCK + 64 * (rand() % 3), time, 1 + rand() % 5, rand() % 4);
		time += rand() % 20;
		waited(LOCK + 64 * (rand() % 3), begin, time, 10 + rand() % 5, rand() % 2 ? KIND_SPINLOCK : KIND_MUTEX);
	}
	look();
	CHECK(found.caused_count < 512, "%d", found.caused_count);
	for (int i = 0; i < found.caused_count && i < 512; i++)
		if (!found.caused[i].stack)
			charged += found.caused[i].ns;
	for (int i = 0; i < found.fairness_count; i++) {
		waits += found.fairness[i].wait_ns;
		handoffs += found.fairness[i].handoff_ns;
	}
	CHECK(charged + handoffs == waits, "%llu + %llu != %llu", charged, handoffs, waits);
}

static void samples_share_out_the_releases(void)
{
	open_holdings();
	release(LOCK, 100, 1, 5);
	release(LOCK, 200, 1, 0);
	release(LOCK, 300, 1, 6);
	release(LOCK, 400, 1, 0);
	waited(LOCK, 10, 405, 2, KIND_SPINLOCK);
	look();
	CHECK(caused_by(LOCK, 1, 5).releases == 2 && caused_by(LOCK, 1, 5).samples == 1, "%llu",
	      caused_by(LOCK, 1, 5).releases);
	CHECK(caused_by(LOCK, 1, 5).ns == 190, "%llu", caused_by(LOCK, 1, 5).ns);
	CHECK(caused_by(LOCK, 1, 6).ns == 200, "%llu", caused_by(LOCK, 1, 6).ns);
	CHECK(caused_by(LOCK, 1, 0).ns == 390, "%llu", caused_by(LOCK, 1, 0).ns);
}

static void a_wait_longer_than_what_is_remembered_says_so_and_the_next_is_whole(void)
{
	open_holdings();
	for (int i = 1; i <= 100; i++)
		release(LOCK, 100 * i, 1 + i % 2, 0);
	waited(LOCK, 10, 10005, 9, KIND_SPINLOCK);
	CHECK(holdings_losses(holdings)->incomplete == 1, "%llu", holdings_losses(holdings)->incomplete);
	for (int i = 101; i <= 220; i++)
		release(LOCK, 100 * i, 1 + i % 2, 0);
	waited(LOCK, 10010, 22005, 9, KIND_SPINLOCK);
	CHECK(holdings_losses(holdings)->incomplete == 1, "it remembers more now: %llu",
	      holdings_losses(holdings)->incomplete);
	look();
	CHECK(found.fairness[0].max_bypasses == 119, "%llu", found.fairness[0].max_bypasses);
	CHECK(found.fairness[0].wait_ns == 9995 + 11995, "%llu", found.fairness[0].wait_ns);
}

static void no_room_is_counted_and_nothing_is_overwritten(void)
{
	open_holdings();
	for (int i = 0; i < 5000; i++) {
		release(LOCK + 64 * i, 100 * i + 100, i + 1, i + 1);
		waited(LOCK + 64 * i, 100 * i + 10, 100 * i + 105, 9, KIND_SPINLOCK);
	}
	CHECK(holdings_losses(holdings)->without_place > 0, "%llu", holdings_losses(holdings)->without_place);
	look();
	CHECK(caused_by(LOCK, 1, 0).ns == 90, "%llu", caused_by(LOCK, 1, 0).ns);
	CHECK(holdings_bytes(holdings) < 64u << 20, "%zu", holdings_bytes(holdings));
}

static void only_what_changed_is_visited_and_an_error_ends_the_visit(void)
{
	open_holdings();
	release(LOCK, 100, 1, 0);
	waited(LOCK, 10, 105, 2, KIND_SPINLOCK);
	look();
	CHECK(found.caused_count == 1, "%d", found.caused_count);
	look();
	CHECK(found.caused_count == 0 && found.fairness_count == 0, "%d", found.caused_count);
	waited(LOCK, 110, 120, 2, KIND_MUTEX);
	memset(&found, 0, sizeof(found));
	found.fail_at = 1;
	CHECK(holdings_changed(holdings, visit_caused, visit_fairness, NULL) == -5, "%d", found.caused_count);
}

static void an_end_before_its_begin_is_no_wait(void)
{
	open_holdings();
	waited(LOCK, 100, 90, 2, KIND_SPINLOCK);
	look();
	CHECK(!found.caused_count && !found.fairness_count, "%d", found.caused_count);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(one_holder_is_charged_up_to_its_release_and_the_rest_is_the_hand_off),
		TEST(a_queue_in_order_is_charged_in_parts_and_overtakes_nobody),
		TEST(a_task_that_comes_later_and_is_served_first_overtakes),
		TEST(a_waiter_between_two_releases_is_no_retake),
		TEST(shared_locks_are_not_judged_for_bypasses),
		TEST(without_a_release_the_owner_or_the_readers_are_charged),
		TEST(an_owner_that_releases_later_is_one_holder),
		TEST(the_parts_of_a_wait_and_its_hand_off_are_the_whole_wait),
		TEST(samples_share_out_the_releases),
		TEST(a_wait_longer_than_what_is_remembered_says_so_and_the_next_is_whole),
		TEST(no_room_is_counted_and_nothing_is_overwritten),
		TEST(only_what_changed_is_visited_and_an_error_ends_the_visit),
		TEST(an_end_before_its_begin_is_no_wait),
	};
	int err = RUN_TESTS(tests);

	holdings_close(holdings);
	return err;
}
