// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes that no futex shows: threads that wait on a CPU, that look again and again, or share a line. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "incidents.h"

/* Static, so that the answers name them. */
pthread_spinlock_t table_spin;
pthread_mutex_t polled_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_flag own_spin = ATOMIC_FLAG_INIT;
static atomic_long counted;

static void prepare_spin(long threads)
{
	pthread_spin_init(&table_spin, PTHREAD_PROCESS_PRIVATE);
}

static void spin_lock(long thread)
{
	pthread_spin_lock(&table_spin);
	spin_us(20);
	pthread_spin_unlock(&table_spin);
	spin_us(2);
}

static void own_spin_lock(long thread)
{
	while (atomic_flag_test_and_set(&own_spin))
		continue;
	spin_us(20);
	atomic_flag_clear(&own_spin);
	spin_us(2);
}

static void yield_lock(long thread)
{
	while (atomic_flag_test_and_set(&own_spin))
		sched_yield();
	spin_us(50);
	atomic_flag_clear(&own_spin);
}

static void poll_lock(long thread)
{
	while (pthread_mutex_trylock(&polled_mutex))
		sleep_us(200);
	spin_us(300);
	pthread_mutex_unlock(&polled_mutex);
	sleep_us(100);
}

/* No lock at all, but one cache line that all threads write. */
static void count(long thread)
{
	for (int i = 0; i < 1000; i++)
		atomic_fetch_add(&counted, 1);
}

/* The same lock as own-spinlock, which looks before it exchanges: a loop that only reads. */
static atomic_int tested_spin;

static void tested_spin_lock(long thread)
{
	do
		while (atomic_load_explicit(&tested_spin, memory_order_relaxed))
			continue;
	while (atomic_exchange(&tested_spin, 1));
	spin_us(20);
	atomic_store(&tested_spin, 0);
	spin_us(2);
}

/* A short section, whose line others count in. */
static struct {
	pthread_mutex_t mutex;
	atomic_long counter;
} beside = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void count_beside(long thread)
{
	if (thread % 2) {
		atomic_fetch_add(&beside.counter, 1);
		return;
	}
	pthread_mutex_lock(&beside.mutex);
	spin_us(2);
	pthread_mutex_unlock(&beside.mutex);
}

const struct incident spin_incidents[] = {
	{"spinlock", spin_lock, prepare_spin},
	{"own-spinlock", own_spin_lock, NULL},
	{"yield-lock", yield_lock, NULL},
	{"poll-lock", poll_lock, NULL},
	{"counter", count, NULL},
	{"counter-beside", count_beside, NULL},
	{"tested-spinlock", tested_spin_lock, NULL},
	{NULL, NULL, NULL},
};
