// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Four threads: contended (one pthread_mutex_t), idle (a condition variable), split (a mutex each).
 * Prints "ready", runs until its input has a line or ends, then prints its counters.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define WORK_NS 200000
#define FEED_US 10000

static atomic_bool stop;
static atomic_long waits, wait_ns, sink;
static const char *mode = "";
static int jobs;

/* A line each. */
static pthread_mutex_t shared_mutex __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t jobs_mutex __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_filled = PTHREAD_COND_INITIALIZER;

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000l + time.tv_nsec;
}

static __attribute__((noinline)) void under_mutex(pthread_mutex_t *mutex)
{
	long begin = now();

	pthread_mutex_lock(mutex);
	wait_ns += now() - begin;
	waits++;
	for (long end = now() + WORK_NS; now() < end;)
		sink++;
	pthread_mutex_unlock(mutex);
}

static __attribute__((noinline)) void serve(void)
{
	pthread_mutex_lock(&jobs_mutex);
	for (;;) {
		while (!jobs && !stop)
			pthread_cond_wait(&jobs_filled, &jobs_mutex);
		if (stop)
			break;
		jobs--;
		waits++;
	}
	pthread_mutex_unlock(&jobs_mutex);
}

static void *run(void *unused)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	if (!strcmp(mode, "idle")) {
		serve();
		return NULL;
	}
	while (!stop)
		under_mutex(strcmp(mode, "split") ? &shared_mutex : &own);
	return NULL;
}

static void *feed(void *unused)
{
	while (!stop) {
		usleep(FEED_US);
		pthread_mutex_lock(&jobs_mutex);
		jobs++;
		pthread_cond_signal(&jobs_filled);
		pthread_mutex_unlock(&jobs_mutex);
	}
	pthread_mutex_lock(&jobs_mutex);
	pthread_cond_broadcast(&jobs_filled);
	pthread_mutex_unlock(&jobs_mutex);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS], feeder;
	bool idle;

	if (argc > 1)
		mode = argv[1];
	idle = !strcmp(mode, "idle");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	if (idle)
		pthread_create(&feeder, NULL, feed, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	stop = true;
	if (idle)
		pthread_join(feeder, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("waits %ld\nwait_ns %ld\n", waits, wait_ns);
	return 0;
}
