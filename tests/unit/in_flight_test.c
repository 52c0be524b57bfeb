// SPDX-License-Identifier: GPL-2.0-or-later
/* Slots of waits whose thread is gone. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "names/task_ids.h"
#include "tap.h"
#include "waits/in_flight.h"

#define SLOTS 64
#define LATER 3600000000000ull

static const struct sizing sizing = {.cpus = 2, .sleep_slots = SLOTS};
static const struct maps maps = {.sizing = &sizing};
static struct sleep_slot slots[SLOTS];
static struct cpu_state states[2];
static struct wait_stack stack;

struct cpu_state *maps_cpu(const struct maps *of, __u32 cpu)
{
	return &states[cpu];
}

struct sleep_slot *maps_sleeper(const struct maps *of, __u32 index)
{
	return &slots[index];
}

const struct wait_stack *maps_spin_stack(const struct maps *of, __u32 cpu, __u32 depth)
{
	return &stack;
}

const struct wait_stack *maps_sleep_stack(const struct maps *of, __u32 index, __u32 depth)
{
	return &stack;
}

int lock_names_task(const struct lock_names *names, __u64 task, __u32 *tid, __u32 *tgid)
{
	return 0;
}

/* A thread that was there a moment ago. */
static __u32 dead_thread(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	return child;
}

/* Of a thread that waits since begin_ns; away: not in its home slot. */
static struct sleep_slot *put(__u32 tid, __u32 away, __u32 depth, __u64 begin_ns)
{
	__u32 home = tid & (SLOTS - 1);
	struct sleep_slot *slot = &slots[(home + away) & (SLOTS - 1)];

	*slot = (struct sleep_slot){.tid = tid, .depth = depth};
	for (__u32 i = 0; i < depth; i++)
		slot->wait[i] = (struct sleep_wait){.lock = 4096, .begin_ns = begin_ns, .begin_cpu = 1};
	slots[home].displaced += away != 0;
	return slot;
}

static int visit(void *data, const struct open_wait *wait)
{
	return 0;
}

static __u64 open_waits(void)
{
	__u64 open;

	CHECK(!in_flight_visit(&maps, NULL, LATER, visit, NULL, &open), "no look");
	return open;
}

static void empty(void)
{
	memset(slots, 0, sizeof(slots));
	memset(states, 0, sizeof(states));
}

static void dead_threads_leave_their_slots(void)
{
	__u32 tid = dead_thread(), next = 0;
	struct sleep_slot *slot;

	empty();
	slot = put(tid, 3, 2, 1);
	CHECK(open_waits() == 2, "%llu", open_waits());
	in_flight_free_dead(&maps, LATER, &next);
	CHECK(!slot->tid, "the slot is still taken");
	CHECK(!slots[tid & (SLOTS - 1)].displaced, "its home still looks for it");
	/* Each begin is accounted for in one place. */
	CHECK(states[1].counters[COUNT_ORPHANED] == 2, "%llu", states[1].counters[COUNT_ORPHANED]);
	CHECK(!open_waits(), "%llu", open_waits());
	in_flight_free_dead(&maps, LATER, &next);
	CHECK(states[1].counters[COUNT_ORPHANED] == 2, "%llu", states[1].counters[COUNT_ORPHANED]);
}

static void living_and_young_waits_stay(void)
{
	struct sleep_slot *living, *young;
	__u32 tid = dead_thread(), next = 0;

	empty();
	living = put(gettid(), 0, 1, 1);
	young = put(tid, (tid & (SLOTS - 1)) == (gettid() & (SLOTS - 1)), 1, LATER - 1000000);
	in_flight_free_dead(&maps, LATER, &next);
	CHECK(living->tid == (__u32)gettid(), "a thread that waits has no slot");
	CHECK(young->tid == tid, "a wait that may just have ended");
	CHECK(!states[1].counters[COUNT_ORPHANED], "%llu", states[1].counters[COUNT_ORPHANED]);
	CHECK(open_waits() == 2, "%llu", open_waits());
}

/* A slot that is kept between waits goes with its thread, and is no wait. */
static void kept_slots_of_dead_threads_are_freed(void)
{
	__u32 tid = dead_thread(), next = 0;
	struct sleep_slot *slot;

	empty();
	slot = put(tid, 0, 0, 1);
	slot->tgid = tid | SLEEP_KEPT;
	CHECK(!open_waits(), "%llu", open_waits());
	slot->wait[0].begin_ns = LATER - 5000000000ull;
	in_flight_free_dead(&maps, LATER, &next);
	CHECK(slot->tid == tid, "a thread that waited a moment ago was looked for");
	slot->wait[0].begin_ns = 1;
	in_flight_free_dead(&maps, LATER, &next);
	CHECK(!slot->tid && slot->tgid == tid, "the slot is still kept");
	CHECK(!states[1].counters[COUNT_ORPHANED], "%llu", states[1].counters[COUNT_ORPHANED]);
	slot = put(gettid(), 0, 0, 1);
	slot->tgid = getpid() | SLEEP_KEPT;
	in_flight_free_dead(&maps, LATER, &next);
	CHECK(slot->tid == (__u32)gettid(), "the slot of a thread that lives");
}

static void few_slots_may_be_kept(void)
{
	empty();
	in_flight_let_keep(&maps);
	CHECK(states[0].keeps == 2 && states[1].keeps == 2, "%u, %u", states[0].keeps, states[1].keeps);
	/* A CPU that has some left gets no more, and what is kept counts. */
	states[0].keeps = 1;
	states[1].keeps = 0;
	for (__u32 i = 0; i < 3; i++) {
		put(SLOTS + i, 0, 0, 1)->tgid = 1 | SLEEP_KEPT;
		in_flight_let_keep(&maps);
		CHECK(states[0].keeps == 1, "%u", states[0].keeps);
		CHECK(states[1].keeps == (i ? 0 : 1), "%u of %u", states[1].keeps, i);
		states[1].keeps = 0;
	}
}

int main(void)
{
	static const struct test tests[] = {
		TEST(dead_threads_leave_their_slots),
		TEST(living_and_young_waits_stay),
		TEST(kept_slots_of_dead_threads_are_freed),
		TEST(few_slots_may_be_kept),
	};

	return RUN_TESTS(tests);
}
