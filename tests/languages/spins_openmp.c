// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Four threads of OpenMP, LLVM's or GCC's: critical (a critical section), lock (an omp_lock_t), barrier (one thread
 * comes last).  Prints "ready", runs until its input has a line or ends, then prints its counters.
 */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static volatile int stop, last_round;
static long long waits, wait_ns;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *wait_for_end(void *unused)
{
	(void)unused;
	getchar();
	stop = 1;
	return NULL;
}

static void work(int us)
{
	for (long long end = now_ns() + us * 1000LL; now_ns() < end;)
		;
}

static void add_wait(long long begin)
{
	__atomic_fetch_add(&wait_ns, now_ns() - begin, __ATOMIC_RELAXED);
	__atomic_fetch_add(&waits, 1, __ATOMIC_RELAXED);
}

static void take_turns(const char *mode, omp_lock_t *lock)
{
	long long begin = now_ns();

	if (!strcmp(mode, "lock")) {
		omp_set_lock(lock);
		add_wait(begin);
		work(200);
		omp_unset_lock(lock);
	} else {
#pragma omp critical(totals)
		{
			add_wait(begin);
			work(200);
		}
	}
}

/* All see the same last round: it is written between two barriers. */
static int meet(void)
{
	long long begin;
	int done;

	work(omp_get_thread_num() == 2 ? 5000 : 200);
	if (omp_get_thread_num() == 2)
		last_round = stop;
	begin = now_ns();
#pragma omp barrier
	add_wait(begin);
	done = last_round;
	begin = now_ns();
#pragma omp barrier
	add_wait(begin);
	return done;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	omp_lock_t lock;
	pthread_t thread;

	omp_init_lock(&lock);
	if (pthread_create(&thread, NULL, wait_for_end, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
#pragma omp parallel num_threads(4)
	if (!strcmp(mode, "barrier"))
		while (!meet())
			;
	else
		while (!stop)
			take_turns(mode, &lock);
	printf("waits %lld\nwait_ns %lld\n", waits, wait_ns);
	return 0;
}
