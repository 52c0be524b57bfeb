// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * incidents NAME THREADS [PID]: a program with a planted cause, until it is killed.  It works in the directory that it is
 * started in.  What `lockline why` makes of each is the laboratory of tests/incidents.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "incidents.h"
#include "workload.h"

#define KEYS     64
#define MAPPINGS 20000

/* Static, so that the answers name them. */
pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t first_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t second_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t work_condition = PTHREAD_COND_INITIALIZER;
pthread_rwlock_t config_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct striped {
	pthread_mutex_t mutex;
	long value;
} stripes[KEYS];
static atomic_long generation;
pthread_barrier_t barrier;
static sem_t table_semaphore, work;
static int file, ends[2], neighbour;

void spin_us(long us)
{
	__u64 end = now_ns() + us * NSEC_PER_USEC;

	while (now_ns() < end)
		continue;
}

void sleep_us(long us)
{
	const struct timespec length = {.tv_nsec = us * NSEC_PER_USEC};

	nanosleep(&length, NULL);
}

void must(bool ok, const char *what)
{
	if (!ok)
		die("%s: %s", what, strerror(errno));
}

static void long_section(long thread)
{
	pthread_mutex_lock(&table_mutex);
	spin_us(300);
	pthread_mutex_unlock(&table_mutex);
	spin_us(20);
}

static void short_sections(long thread)
{
	pthread_mutex_lock(&table_mutex);
	spin_us(2);
	pthread_mutex_unlock(&table_mutex);
}

static void sleep_in_section(long thread)
{
	pthread_mutex_lock(&table_mutex);
	sleep_us(2000);
	pthread_mutex_unlock(&table_mutex);
	spin_us(20);
}

static void write_in_section(long thread)
{
	static char block[65536];

	pthread_mutex_lock(&table_mutex);
	must(pwrite(file, block, sizeof(block), 0) == sizeof(block) && !fsync(file), "write");
	pthread_mutex_unlock(&table_mutex);
	spin_us(20);
}

/* The reader of the log is slow, and the pipe is full. */
static void log_in_section(long thread)
{
	static char line[2048];

	if (!thread) {
		must(read(ends[0], line, sizeof(line)) > 0, "read");
		sleep_us(500);
		return;
	}
	pthread_mutex_lock(&log_mutex);
	must(write(ends[1], line, sizeof(line)) > 0, "write");
	pthread_mutex_unlock(&log_mutex);
	spin_us(20);
}

/* One works, everybody is woken, and all of them take the mutex to see that there is nothing. */
static void herd(long thread)
{
	long seen;

	pthread_mutex_lock(&work_mutex);
	if (!thread) {
		generation++;
		pthread_cond_broadcast(&work_condition);
		spin_us(50);
		pthread_mutex_unlock(&work_mutex);
		sleep_us(100);
		return;
	}
	seen = generation;
	while (seen == generation)
		pthread_cond_wait(&work_condition, &work_mutex);
	spin_us(50);
	pthread_mutex_unlock(&work_mutex);
}

static void read_mostly(long thread)
{
	if (thread % 4)
		pthread_rwlock_rdlock(&config_lock);
	else
		pthread_rwlock_wrlock(&config_lock);
	spin_us(200);
	pthread_rwlock_unlock(&config_lock);
	spin_us(20);
}

static void deadlock(long thread)
{
	pthread_mutex_t *own = thread % 2 ? &first_mutex : &second_mutex;
	pthread_mutex_t *other = thread % 2 ? &second_mutex : &first_mutex;

	pthread_mutex_lock(own);
	sleep_us(200000);
	pthread_mutex_lock(other);
	die("no deadlock");
}

static void leak(long thread)
{
	pthread_mutex_lock(&table_mutex);
	for (;;)
		sleep_us(500000);
}

static void map_and_unmap(long thread)
{
	size_t size = 1 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED, "mmap");
	for (size_t at = 0; at < size; at += 4096)
		memory[at] = 1;
	must(!munmap(memory, size), "munmap");
}

/* The same under a mutex, beside threads that need none: mmap_lock makes both wait. */
static void map_under_mutex(long thread)
{
	if (thread % 2) {
		map_and_unmap(thread);
		return;
	}
	pthread_mutex_lock(&table_mutex);
	map_and_unmap(thread);
	pthread_mutex_unlock(&table_mutex);
}

/* One arena: malloc() and free() of all threads take its mutex. */
static void allocate(long thread)
{
	void *blocks[KEYS];

	for (int i = 0; i < KEYS; i++)
		blocks[i] = malloc(2000 + 16 * i);
	for (int i = 0; i < KEYS; i++)
		free(blocks[i]);
}

static void write_in_pipe(long thread)
{
	static char data[65536];

	if (!thread)
		must(read(ends[0], data, sizeof(data)) > 0, "read");
	else
		must(write(ends[1], data, 4096) > 0, "write");
}

static void append(long thread)
{
	static char data[262144];

	must(pwrite(file, data, sizeof(data), 0) == sizeof(data), "write");
}

static void append_synced(long thread)
{
	static char data[65536];

	must(pwrite(file, data, sizeof(data), 0) == sizeof(data), "write");
}

static void in_directory(long thread)
{
	char name[48];
	int made;

	snprintf(name, sizeof(name), "incident.%d.%ld", getpid(), thread);
	made = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(made >= 0 && !close(made) && !unlink(name), name);
}

static void compute(long thread)
{
	spin_us(1000);
}

static void idle(long thread)
{
	sleep_us(100000);
}

/* A pool with nothing to do: waits that are no contention. */
static void pool(long thread)
{
	pthread_mutex_lock(&work_mutex);
	pthread_cond_wait(&work_condition, &work_mutex);
	pthread_mutex_unlock(&work_mutex);
}

static void striped(long thread)
{
	struct striped *one = &stripes[(thread * 7 + now_ns() / 1000) % KEYS];

	pthread_mutex_lock(&one->mutex);
	one->value++;
	pthread_mutex_unlock(&one->mutex);
	spin_us(100);
}

static void own_file(long thread)
{
	static char data[4096];
	char name[32];
	int made;

	snprintf(name, sizeof(name), "own.%ld", thread);
	made = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(made >= 0 && pwrite(made, data, sizeof(data), 0) == sizeof(data) && !fsync(made) && !close(made), name);
}

/* Everybody needs both mutexes; the one to blame sleeps with the second alone, and the first is waited for most. */
static void lock_chain(long thread)
{
	if (!thread) {
		pthread_mutex_lock(&second_mutex);
		sleep_us(20000);
		pthread_mutex_unlock(&second_mutex);
		sleep_us(300);
		return;
	}
	pthread_mutex_lock(&first_mutex);
	pthread_mutex_lock(&second_mutex);
	spin_us(20);
	pthread_mutex_unlock(&second_mutex);
	pthread_mutex_unlock(&first_mutex);
	sleep_us(200);
}

static void slow_writer(long thread)
{
	if (thread)
		pthread_rwlock_rdlock(&config_lock);
	else
		pthread_rwlock_wrlock(&config_lock);
	sleep_us(thread ? 0 : 10000);
	pthread_rwlock_unlock(&config_lock);
	sleep_us(thread ? 200 : 2000);
}

/* One thread has most of the work between two barriers. */
static void barrier_round(long thread)
{
	sleep_us(thread ? 500 : 8000);
	pthread_barrier_wait(&barrier);
}

void as_process(long thread, void (*round)(long thread))
{
	pid_t child = fork();

	must(child >= 0, "fork");
	while (!child)
		round(thread);
	waitpid(child, NULL, 0);
	die("the child has ended");
}

/* A program that does little, and what a neighbour of it does much of. */
static void files_seldom(long thread)
{
	in_directory(thread);
	sleep_us(3000);
}

static void map_seldom(long thread)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED && !munmap(memory, 4096), "mmap");
	sleep_us(3000);
}

/* A monitoring agent that reads what a process has mapped: it has that process's mmap_lock meanwhile. */
static void read_all_of(const char *name)
{
	static _Thread_local char text[1 << 16];
	char path[64];
	int maps;

	snprintf(path, sizeof(path), "/proc/%d/%s", neighbour, name);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	must(maps >= 0, path);
	while (read(maps, text, sizeof(text)) > 0)
		continue;
	close(maps);
}

static void read_maps(long thread)
{
	read_all_of("smaps");
}

static void read_rollup(long thread)
{
	read_all_of("smaps_rollup");
}

/* Three threads in a ring. */
static pthread_mutex_t ring[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void deadlock_of_three(long thread)
{
	pthread_mutex_lock(&ring[thread % 3]);
	sleep_us(200000);
	pthread_mutex_lock(&ring[(thread + 1) % 3]);
	die("no deadlock");
}

/* A semaphore that guards a table, and that one thread does not give back. */
static void leak_semaphore(long thread)
{
	if (thread)
		sleep_us(100000);
	sem_wait(&table_semaphore);
	for (;;)
		sleep_us(500000);
}

/* Readers that always overlap: a lock that prefers readers lets no writer in. */
static void starve_writers(long thread)
{
	if (thread > 1) {
		pthread_rwlock_rdlock(&config_lock);
		sleep_us(2000);
		pthread_rwlock_unlock(&config_lock);
		return;
	}
	pthread_rwlock_wrlock(&config_lock);
	spin_us(10);
	pthread_rwlock_unlock(&config_lock);
	sleep_us(1000);
}

/* Writers that always wait: a lock that prefers writers lets readers in seldom. */
static void prepare_preference(long threads)
{
	pthread_rwlockattr_t attributes;

	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&config_lock, &attributes);
}

static void starve_readers(long thread)
{
	if (thread < 3)
		pthread_rwlock_wrlock(&config_lock);
	else
		pthread_rwlock_rdlock(&config_lock);
	spin_us(thread < 3 ? 300 : 5);
	pthread_rwlock_unlock(&config_lock);
	spin_us(5);
}

/* All keys fall into one bucket of a table. */
static void collide(long thread)
{
	struct striped *one = &stripes[thread * KEYS % KEYS];

	pthread_mutex_lock(&one->mutex);
	spin_us(200);
	one->value++;
	pthread_mutex_unlock(&one->mutex);
	spin_us(20);
}

/* Threads that write lines to one stream, behind which a pipe is full. */
static FILE *stream;

static void prepare_stream(long threads)
{
	stream = fdopen(ends[1], "w");
	must(stream && !setvbuf(stream, NULL, _IOLBF, 4096), "fdopen");
}

static void log_to_stream(long thread)
{
	static char text[2048];

	if (!thread) {
		must(read(ends[0], text, sizeof(text)) > 0, "read");
		sleep_us(500);
		return;
	}
	fprintf(stream, "%2000ld\n", thread);
	spin_us(20);
}

/* Workers that wait for a slow producer: no lock. */
static void slow_producer(long thread)
{
	if (!thread) {
		sleep_us(5000);
		sem_post(&work);
		return;
	}
	sem_wait(&work);
	spin_us(100);
}

/* The holder has the lowest priority, on a CPU that others want. */
static void low_priority(long thread)
{
	static _Thread_local bool placed;

	if (!placed) {
		placed = true;
		pin_to_cpu(0);
		must(!setpriority(PRIO_PROCESS, gettid(), thread ? 0 : 19), "setpriority");
	}
	if (thread > 2) {
		spin_us(1000);
		return;
	}
	pthread_mutex_lock(&table_mutex);
	spin_us(thread ? 5 : 1000);
	pthread_mutex_unlock(&table_mutex);
	sleep_us(thread ? 500 : 50);
}

/* A thread of a real-time class takes the CPU of the one who has the mutex, for moments. */
static void beside_real_time(long thread)
{
	const struct sched_param first = {.sched_priority = 10};
	static _Thread_local bool placed;

	if (!placed) {
		placed = true;
		if (thread < 2)
			pin_to_cpu(0);
		must(thread || !sched_setscheduler(0, SCHED_FIFO, &first), "sched_setscheduler");
	}
	if (!thread) {
		spin_us(40000);
		sleep_us(10000);
		return;
	}
	pthread_mutex_lock(&table_mutex);
	spin_us(thread == 1 ? 2000 : 5);
	pthread_mutex_unlock(&table_mutex);
	sleep_us(thread == 1 ? 50 : 500);
}

/* A mutex that inherits priorities: the kernel's own, when it is contended. */
static void prepare_inheriting(long threads)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&table_mutex, &attributes);
}

/* Something that is made once, slowly: all wait for the first. */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_slowly(void)
{
	for (;;)
		sleep_us(500000);
}

static void make_once(long thread)
{
	pthread_once(&once, make_slowly);
}

static const struct incident incidents[] = {
	{"long-section", long_section, NULL},
	{"short-sections", short_sections, NULL},
	{"sleep-in-section", sleep_in_section, NULL},
	{"write-in-section", write_in_section, NULL},
	{"log-in-section", log_in_section, NULL},
	{"herd", herd, NULL},
	{"read-mostly", read_mostly, NULL},
	{"deadlock", deadlock, NULL},
	{"leak", leak, NULL},
	{"mmap-storm", map_and_unmap, NULL},
	{"one-arena", allocate, NULL},
	{"pipe", write_in_pipe, NULL},
	{"one-file", append, NULL},
	{"one-file-synced", append_synced, NULL},
	{"one-directory", in_directory, NULL},
	{"compute", compute, NULL},
	{"idle", idle, NULL},
	{"pool", pool, NULL},
	{"striped", striped, NULL},
	{"own-files", own_file, NULL},
	{"lock-chain", lock_chain, NULL},
	{"slow-writer", slow_writer, NULL},
	{"barrier", barrier_round, NULL},
	{"files-seldom", files_seldom, NULL},
	{"map-seldom", map_seldom, NULL},
	{"read-maps", read_maps, NULL},
	{"map-rolled-up", map_seldom, NULL},
	{"read-rollup", read_rollup, NULL},
	{"deadlock-of-three", deadlock_of_three, NULL},
	{"leaked-semaphore", leak_semaphore, NULL},
	{"starved-writer", starve_writers, NULL},
	{"starved-readers", starve_readers, prepare_preference},
	{"collisions", collide, NULL},
	{"stream-log", log_to_stream, prepare_stream},
	{"slow-producer", slow_producer, NULL},
	{"low-priority", low_priority, NULL},
	{"beside-real-time", beside_real_time, NULL},
	{"inheriting", long_section, prepare_inheriting},
	{"once", make_once, NULL},
	{"map-under-mutex", map_under_mutex, NULL},
};

static const struct incident *const others[] = {kernel_incidents, spin_incidents,  process_incidents, holder_incidents,
						owner_incidents,  queue_incidents, server_incidents,  mixed_incidents};
static const struct incident *incident;

static void *run(void *argument)
{
	for (;;)
		incident->round((long)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = argc == 3 || argc == 4 ? atol(argv[2]) : 0;
	pthread_t thread;
	int flags = O_CREAT | O_RDWR | O_CLOEXEC;

	for (size_t i = 0; i < sizeof(incidents) / sizeof(incidents[0]); i++)
		if (threads > 0 && !strcmp(argv[1], incidents[i].name))
			incident = &incidents[i];
	for (size_t i = 0; threads > 0 && i < sizeof(others) / sizeof(others[0]); i++)
		for (const struct incident *one = others[i]; one->name; one++)
			if (!strcmp(argv[1], one->name))
				incident = one;
	if (!incident)
		die("usage: incidents NAME THREADS [PID]");
	if (argc == 4)
		neighbour = atoi(argv[3]);
	/* Many mappings, so that reading them takes its time. */
	if (incident->round == map_seldom)
		for (int i = 0; i < MAPPINGS; i++)
			must(mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0) != MAP_FAILED,
			     "mmap");
	if (incident->round == allocate)
		mallopt(M_ARENA_MAX, 1);
	for (int i = 0; i < KEYS; i++)
		pthread_mutex_init(&stripes[i].mutex, NULL);
	must(!pipe2(ends, O_CLOEXEC), "pipe");
	file = open("incident.data", incident->round == append_synced ? flags | O_SYNC : flags, 0600);
	must(file >= 0, "incident.data");
	must(!unlink("incident.data"), "unlink");
	pthread_barrier_init(&barrier, NULL, threads);
	sem_init(&table_semaphore, 0, 1);
	sem_init(&work, 0, 0);
	if (incident->prepare)
		incident->prepare(threads);
	/* Threads of their own: the first one would be the process, whose name others take from it. */
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, run, (void *)i))
			die("cannot make a thread");
	for (;;)
		pause();
}
