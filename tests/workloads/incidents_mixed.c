// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes of all kinds, asked about for the first time on 27 November 2026. */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "incidents.h"
#include "workload.h"

#define FEW_MAPPINGS 3000
#define NUMBERS      20000

pthread_mutex_t pinned_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t rotate_mutex = PTHREAD_MUTEX_INITIALIZER;
static int master, slave, pages;

/* Most threads read the list of mappings, and one changes them: it waits for the readers. */
static void prepare_own_maps(long threads)
{
	for (int i = 0; i < FEW_MAPPINGS; i++)
		must(mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
			     MAP_FAILED,
		     "mmap");
}

static void read_own_maps(long thread)
{
	static __thread char text[1 << 16];
	int maps;

	if (!thread) {
		void *area = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		must(area != MAP_FAILED && !munmap(area, 4096), "mmap");
		return;
	}
	maps = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	must(maps >= 0, "smaps");
	while (read(maps, text, sizeof(text)) > 0)
		continue;
	close(maps);
}

/* One terminal for all threads; thread 0 reads what they write, slowly. */
static void prepare_terminal(long threads)
{
	struct termios raw;

	must(!openpty(&master, &slave, NULL, NULL, NULL), "openpty");
	must(!tcgetattr(slave, &raw), "tcgetattr");
	cfmakeraw(&raw);
	must(!tcsetattr(slave, TCSANOW, &raw), "tcsetattr");
}

static void write_terminal(long thread)
{
	static const char line[1024] = "x";
	char text[4096];

	if (thread) {
		must(write(slave, line, sizeof(line)) > 0, "write");
		return;
	}
	must(read(master, text, sizeof(text)) > 0, "read");
	sleep_us(500);
}

/* Thread 0 works in a section on the CPU that threads with no lock keep busy: longer than a turn of the scheduler. */
static void *keep_busy(void *argument)
{
	pin_to_cpu(0);
	for (;;)
		spin_us(1000);
	return NULL;
}

static void prepare_pinned(long threads)
{
	pthread_t thread;

	for (int i = 0; i < 8; i++)
		must(!pthread_create(&thread, NULL, keep_busy, NULL), "pthread_create");
}

static void work_us(long us)
{
	struct timespec used;
	long end = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
		end = end ?: used.tv_sec * 1000000 + used.tv_nsec / 1000 + us;
	} while (used.tv_sec * 1000000 + used.tv_nsec / 1000 < end);
}

static void pinned_worker(long thread)
{
	static __thread bool pinned;

	if (!thread && !pinned) {
		pin_to_cpu(0);
		pinned = true;
	}
	pthread_mutex_lock(&pinned_mutex);
	work_us(thread ? 20 : 10000);
	pthread_mutex_unlock(&pinned_mutex);
	sleep_us(thread ? 500 : 100);
}

/* A library that gives memory back to the kernel all the time has the arena meanwhile. */
static void prepare_trimmed(long threads)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

static void trim(long thread)
{
	void *blocks[256];

	if (!thread) {
		malloc_trim(0);
		return;
	}
	for (int i = 0; i < 256; i++)
		blocks[i] = malloc(2000 + 16 * i);
	for (int i = 0; i < 256; i++)
		free(blocks[i]);
}

/* Each record is on the disk before the next one is begun, and every tenth begins a new file. */
static void rotate_log(long thread)
{
	static int log = -1, records;

	pthread_mutex_lock(&rotate_mutex);
	if (records++ % 10 == 0) {
		if (log >= 0) {
			close(log);
			must(!rename("rotated.log", "rotated.log.1"), "rename");
		}
		log = open("rotated.log", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	}
	must(write(log, "record\n", 7) == 7 && !fsync(log), "fsync");
	pthread_mutex_unlock(&rotate_mutex);
	sleep_us(1000);
}

/* Idle: each thread waits for a condition of its own, at most for 5 ms. */
static void wait_a_moment(long thread)
{
	static __thread pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static __thread pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 5 * 1000 * NSEC_PER_USEC;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&condition, &mutex, &until);
	pthread_mutex_unlock(&mutex);
}

/* Busy with memory of its own, and no lock. */
static int by_value(const void *one, const void *other)
{
	return *(const int *)one < *(const int *)other ? -1 : *(const int *)one > *(const int *)other;
}

static void sort_numbers(long thread)
{
	static __thread int numbers[NUMBERS];
	static __thread unsigned seed;

	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = rand_r(&seed);
	qsort(numbers, NUMBERS, sizeof(numbers[0]), by_value);
}

/* The loader's lock: one at a time loads a library. */
static void load_plugin(long thread)
{
	void *plugin = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	void *other = dlopen("libpthread.so.0", RTLD_NOW | RTLD_LOCAL);

	must(plugin && dlsym(plugin, "cos"), "dlopen");
	dlclose(plugin);
	if (other)
		dlclose(other);
}

/* One file's attributes, changed by all. */
static void prepare_attributes(long threads)
{
	pages = open("attributes", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(pages >= 0 && !unlink("attributes"), "attributes");
}

static void change_attributes(long thread)
{
	must(!fchmod(pages, thread % 2 ? 0600 : 0640), "fchmod");
}

/* Tokens in a pipe, as make's jobserver has them: two for all threads, who sleep with one. */
static int tokens[2];

static void prepare_tokens(long threads)
{
	must(!pipe2(tokens, O_CLOEXEC) && write(tokens[1], "++", 2) == 2, "pipe");
}

static void take_token(long thread)
{
	char token;

	must(read(tokens[0], &token, 1) == 1, "read");
	sleep_us(3000);
	must(write(tokens[1], &token, 1) == 1, "write");
}

const struct incident mixed_incidents[] = {
	{"own-maps", read_own_maps, prepare_own_maps},
	{"terminal", write_terminal, prepare_terminal},
	{"pinned-worker", pinned_worker, prepare_pinned},
	{"trimmed", trim, prepare_trimmed},
	{"rotated-log", rotate_log, NULL},
	{"timed-waits", wait_a_moment, NULL},
	{"sorts", sort_numbers, NULL},
	{"plugins", load_plugin, NULL},
	{"attributes", change_attributes, prepare_attributes},
	{"tokens", take_token, prepare_tokens},
	{},
};
