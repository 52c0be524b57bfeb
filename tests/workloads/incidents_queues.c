// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes that are no lock, or one that is not the program's own: queues, pools, signals, the C library. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "incidents.h"
#include "workload.h"

pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER, queue_done = PTHREAD_COND_INITIALIZER;
static long queued, done_jobs, free_connections = 2;
static sem_t connections;
static mqd_t queue;
static atomic_uint next_ticket, now_served;
static char *area;
static pthread_t mutators[64];
static atomic_long mutators_made, halted;
static atomic_int world_stopped;
static long threads_of_all;

/* Thread 0 takes one message of the queue in 2 ms. */
static void prepare_queue(long threads)
{
	struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64};
	char name[48];

	snprintf(name, sizeof(name), "/lockline-incident-%d", getpid());
	queue = mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600, &attributes);
	must(queue != (mqd_t)-1 && !mq_unlink(name), "mq_open");
}

static void fill_queue(long thread)
{
	char message[64] = "";

	if (!thread) {
		must(mq_receive(queue, message, sizeof(message), NULL) >= 0, "mq_receive");
		sleep_us(2000);
		return;
	}
	must(!mq_send(queue, message, sizeof(message), 0), "mq_send");
}

/* Two connections for all threads: a semaphore counts them. */
static void prepare_connections(long threads)
{
	sem_init(&connections, 0, 2);
}

static void use_counted_connection(long thread)
{
	sem_wait(&connections);
	sleep_us(5000);
	sem_post(&connections);
	spin_us(50);
}

/* The same with a condition variable. */
static void use_connection(long thread)
{
	pthread_mutex_lock(&queue_mutex);
	while (!free_connections)
		pthread_cond_wait(&queue_filled, &queue_mutex);
	free_connections--;
	pthread_mutex_unlock(&queue_mutex);
	sleep_us(5000);
	pthread_mutex_lock(&queue_mutex);
	free_connections++;
	pthread_cond_signal(&queue_filled);
	pthread_mutex_unlock(&queue_mutex);
	spin_us(50);
}

/* One worker that is always busy, and clients that wait for it. */
static void ask_worker(long thread)
{
	long own;

	pthread_mutex_lock(&queue_mutex);
	if (!thread) {
		while (!queued)
			pthread_cond_wait(&queue_filled, &queue_mutex);
		queued--;
		pthread_mutex_unlock(&queue_mutex);
		spin_us(2000);
		pthread_mutex_lock(&queue_mutex);
		done_jobs++;
		pthread_cond_broadcast(&queue_done);
		pthread_mutex_unlock(&queue_mutex);
		return;
	}
	queued++;
	own = done_jobs + 1;
	pthread_cond_signal(&queue_filled);
	while (done_jobs < own)
		pthread_cond_wait(&queue_done, &queue_mutex);
	pthread_mutex_unlock(&queue_mutex);
	spin_us(20);
}

/* A collector of garbage: a signal stops all others, who sleep in its handler until it is done. */
static void halt(int number)
{
	sigset_t mask;
	int saved = errno;

	sigfillset(&mask);
	sigdelset(&mask, SIGUSR2);
	atomic_fetch_add(&halted, 1);
	while (atomic_load(&world_stopped))
		sigsuspend(&mask);
	atomic_fetch_sub(&halted, 1);
	errno = saved;
}

static void resume(int number)
{
}

static void prepare_world(long threads)
{
	struct sigaction action = {.sa_handler = halt, .sa_flags = SA_RESTART};

	sigfillset(&action.sa_mask);
	must(!sigaction(SIGUSR1, &action, NULL), "sigaction");
	action.sa_handler = resume;
	must(!sigaction(SIGUSR2, &action, NULL), "sigaction");
	threads_of_all = threads;
}

static void stop_the_world(long thread)
{
	static _Thread_local bool known;

	if (thread) {
		if (!known)
			mutators[atomic_fetch_add(&mutators_made, 1)] = pthread_self();
		known = true;
		spin_us(100);
		return;
	}
	if (atomic_load(&mutators_made) < threads_of_all - 1) {
		sleep_us(1000);
		return;
	}
	atomic_store(&world_stopped, 1);
	for (long i = 0; i < threads_of_all - 1; i++)
		pthread_kill(mutators[i], SIGUSR1);
	while (atomic_load(&halted) < threads_of_all - 1)
		sleep_us(100);
	sleep_us(40000);
	atomic_store(&world_stopped, 0);
	while (atomic_load(&halted)) {
		for (long i = 0; i < threads_of_all - 1; i++)
			pthread_kill(mutators[i], SIGUSR2);
		sleep_us(200);
	}
	sleep_us(10000);
}

/* Who throws or unwinds walks the list of libraries: the dynamic linker's lock. */
static int look_at_object(struct dl_phdr_info *info, size_t size, void *argument)
{
	spin_us(100);
	return 0;
}

static void walk_objects(long thread)
{
	dl_iterate_phdr(look_at_object, NULL);
	spin_us(20);
}

/* Local time: the C library's lock of the time zone. */
static void tell_time(long thread)
{
	struct tm local;
	time_t now = time(NULL);

	for (int i = 0; i < 100; i++)
		must(localtime_r(&now, &local), "localtime_r");
}

/* A ticket lock: the one whose turn it is may have no CPU. */
static void take_ticket(long thread)
{
	unsigned own = atomic_fetch_add(&next_ticket, 1);

	while (atomic_load_explicit(&now_served, memory_order_relaxed) != own)
#ifdef __x86_64__
		__builtin_ia32_pause();
#else
		__asm__ volatile("yield");
#endif
	spin_us(100);
	atomic_fetch_add(&now_served, 1);
	spin_us(5);
}

/* No lock; all threads may use one CPU alone. */
static void compute_on_one(long thread)
{
	static _Thread_local bool placed;

	if (!placed) {
		placed = true;
		pin_to_cpu(0);
	}
	spin_us(1000);
}

/* Pages are protected and let go again, beside faults. */
static void prepare_area(long threads)
{
	area = mmap(NULL, threads << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(area != MAP_FAILED, "mmap");
}

static void protect(long thread)
{
	char *own = area + (thread << 20);

	must(!mprotect(own, 1 << 19, PROT_READ) && !mprotect(own, 1 << 19, PROT_READ | PROT_WRITE), "mprotect");
	for (size_t at = 0; at < 1 << 19; at += 4096)
		own[at] = 1;
}

const struct incident queue_incidents[] = {
	{"full-queue", fill_queue, prepare_queue},
	{"counted-connections", use_counted_connection, prepare_connections},
	{"connections", use_connection, NULL},
	{"busy-worker", ask_worker, NULL},
	{"stop-the-world", stop_the_world, prepare_world},
	{"unwind-lock", walk_objects, NULL},
	{"time-zone", tell_time, NULL},
	{"ticket-lock", take_ticket, NULL},
	{"one-cpu", compute_on_one, NULL},
	{"protect-storm", protect, prepare_area},
	{NULL, NULL, NULL},
};
