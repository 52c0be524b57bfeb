// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes that lie in what a holder does: it writes to the disk, rotates a log, or is pushed from its CPU. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <unistd.h>

#include "incidents.h"
#include "workload.h"

pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t pool_condition = PTHREAD_COND_INITIALIZER;
pthread_mutex_t device_mutex = PTHREAD_MUTEX_INITIALIZER;
static long jobs;
static int journal;
static atomic_uint sequence;
static volatile long record[8];

static void prepare_pool(long threads)
{
	journal = open("journal.data", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(journal >= 0 && !unlink("journal.data"), "journal.data");
}

/* A pool: thread 0 brings jobs.  Who takes one writes that into a journal, with the queue's mutex still held. */
static void pool_synced(long thread)
{
	static const char entry[4096];

	if (!thread) {
		pthread_mutex_lock(&pool_mutex);
		jobs += 16;
		pthread_cond_broadcast(&pool_condition);
		pthread_mutex_unlock(&pool_mutex);
		sleep_us(2000);
		return;
	}
	pthread_mutex_lock(&pool_mutex);
	while (!jobs)
		pthread_cond_wait(&pool_condition, &pool_mutex);
	jobs--;
	must(pwrite(journal, entry, sizeof(entry), 0) == sizeof(entry) && !fsync(journal), "journal");
	pthread_mutex_unlock(&pool_mutex);
	spin_us(20);
}

/* Writers lock the log for a line; one process rotates it, and compresses with the lock held. */
static void rotate_once(long thread)
{
	int log = open("incident.log", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	must(log >= 0, "incident.log");
	for (;;) {
		must(!flock(log, LOCK_EX), "flock");
		if (!thread) {
			spin_us(40000);
			sleep_us(60000);
		}
		must(!flock(log, LOCK_UN), "flock");
		sleep_us(thread ? 2000 : 10000);
	}
}

static void rotate(long thread)
{
	as_process(thread, rotate_once);
}

/* The one who is first waits for the last one's mutex, and the one between has the CPU. */
static void invert(long thread)
{
	static _Thread_local bool placed;

	if (!placed) {
		const struct sched_param priority = {.sched_priority = thread ? 20 : 50};

		placed = true;
		pin_to_cpu(0);
		must(thread > 1 || !sched_setscheduler(0, SCHED_FIFO, &priority), "sched_setscheduler");
	}
	if (thread == 1) {
		spin_us(40000);
		sleep_us(10000);
		return;
	}
	pthread_mutex_lock(&device_mutex);
	spin_us(thread ? 1000 : 5);
	pthread_mutex_unlock(&device_mutex);
	sleep_us(thread ? 50 : 500);
}

/* Thread 0 writes a record under a sequence count nearly all the time, and readers try again. */
static void sequence_round(long thread)
{
	unsigned begun;
	long sum = 0;

	if (!thread) {
		atomic_fetch_add(&sequence, 1);
		for (int i = 0; i < 8; i++)
			record[i]++;
		spin_us(200);
		atomic_fetch_add(&sequence, 1);
		spin_us(1);
		return;
	}
	do {
		while ((begun = atomic_load(&sequence)) & 1)
			continue;
		for (int i = 0; i < 8; i++)
			sum += record[i];
	} while (atomic_load(&sequence) != begun);
}

const struct incident holder_incidents[] = {
	{"pool-synced", pool_synced, prepare_pool}, {"rotation", rotate, NULL}, {"inversion", invert, NULL},
	{"sequence", sequence_round, NULL},         {NULL, NULL, NULL},
};
