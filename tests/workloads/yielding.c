// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * yielding: three threads on one CPU take turns at a lock that is tried again after each sched_yield(), and at nothing
 * else.  Prints "ready", runs until its input has a line or ends, then prints how long they waited by their own clocks.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "workload.h"

#define THREADS 3
#define WORK_NS 200000

static atomic_int taken, stop;
static atomic_ullong waits, wait_ns;

/* Once at least: the CPU's other threads come while one has the lock, and find it taken. */
static __attribute__((noinline)) void wait_by_turns(const atomic_int *lock)
{
	__u64 begin_ns = now_ns();

	do
		sched_yield();
	while (lock && *lock);
	atomic_fetch_add(&wait_ns, now_ns() - begin_ns);
	atomic_fetch_add(&waits, 1);
}

static void *run(void *unused)
{
	(void)unused;
	while (!stop) {
		__u64 end_ns;

		while (atomic_exchange(&taken, 1))
			wait_by_turns(&taken);
		for (end_ns = now_ns() + WORK_NS; now_ns() < end_ns;)
			continue;
		wait_by_turns(NULL);
		taken = 0;
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	pin_to_cpu(0);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			die("no thread");
	puts("ready");
	fflush(stdout);
	getchar();
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("waits %llu\nwait_ns %llu\n", waits, wait_ns);
	return 0;
}
