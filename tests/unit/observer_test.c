// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "probes/observer.h"
#include "tap.h"

static void wakes_up_on_every_cpu(void)
{
	struct observer *observer;
	struct observed seen, later;
	__u64 counted = 0;
	cpu_set_t allowed;

	CHECK(!observer_start(&observer), "start");
	CHECK(!sched_getaffinity(0, sizeof(allowed), &allowed), "errno %d", errno);
	CHECK(observer_threads(observer) == (__u32)CPU_COUNT(&allowed), "%u threads", observer_threads(observer));
	do {
		usleep(10000);
		observer_read(observer, &seen);
	} while (seen.wakeups < 20);
	CHECK(observer_take_max(observer) > 0, "the latest");
	observer_read(observer, &later);
	CHECK(later.wakeups >= seen.wakeups, "%llu, then %llu", seen.wakeups, later.wakeups);
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		counted += later.histogram[i];
	/* The bucket is written first, and the threads go on meanwhile. */
	CHECK(counted >= seen.wakeups, "%llu in the histogram of %llu", counted, seen.wakeups);
	observer_stop(observer);
}

static void stops_at_once_and_without_a_start(void)
{
	struct observer *observer;

	observer_stop(NULL);
	CHECK(!observer_start(&observer), "start");
	observer_stop(observer);
}

static const struct test tests[] = {
	TEST(wakes_up_on_every_cpu),
	TEST(stops_at_once_and_without_a_start),
};

int main(void)
{
	return RUN_TESTS(tests);
}
