// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Other kinds of waiting than for a mutex, by name: rwlock, barrier (one thread comes last), even (none does),
 * herd (a condition variable wakes all for one job), queue (it wakes one).
 * Prints "ready", and runs until its input has a line or ends.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define HERD    16
#define JOB_US  500

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t phase;
static pthread_mutex_t jobs_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_filled = PTHREAD_COND_INITIALIZER;
static const char *mode = "";
static int jobs;

static __attribute__((noinline)) void work(long us)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static bool is(const char *name)
{
	return !strcmp(mode, name);
}

static __attribute__((noinline)) void update_table(void)
{
	pthread_rwlock_wrlock(&table_lock);
	work(100);
	pthread_rwlock_unlock(&table_lock);
}

static __attribute__((noinline)) void compute_phase(long thread)
{
	work(is("barrier") && thread == 2 ? 5000 : 200);
	pthread_barrier_wait(&phase);
}

static __attribute__((noinline)) void take_job(void)
{
	pthread_mutex_lock(&jobs_mutex);
	while (!jobs)
		pthread_cond_wait(&jobs_filled, &jobs_mutex);
	jobs--;
	pthread_mutex_unlock(&jobs_mutex);
	work(20);
}

static __attribute__((noinline)) void add_job(void)
{
	usleep(JOB_US);
	pthread_mutex_lock(&jobs_mutex);
	jobs++;
	if (is("herd"))
		pthread_cond_broadcast(&jobs_filled);
	else
		pthread_cond_signal(&jobs_filled);
	pthread_mutex_unlock(&jobs_mutex);
}

static void *run(void *argument)
{
	long thread = (long)argument;

	for (;;) {
		if (is("rwlock"))
			update_table();
		else if (is("barrier") || is("even"))
			compute_phase(thread);
		else if (thread < 0)
			add_job();
		else
			take_job();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	bool feeds;
	pthread_t thread;

	mode = argc > 1 ? argv[1] : "";
	feeds = is("herd") || is("queue");
	pthread_barrier_init(&phase, NULL, THREADS);
	for (long i = feeds ? -1 : 0; i < (feeds ? HERD : THREADS); i++)
		if (pthread_create(&thread, NULL, run, (void *)i))
			return 1;
	puts("ready");
	fflush(stdout);
	getchar();
	_exit(0);
}
