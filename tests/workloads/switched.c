// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * switched NAME THREADS: a program whose cause of waiting can be taken away while it runs: SIGUSR1 takes it away,
 * SIGUSR2 brings it back.  `rounds` counts its work.  The work of a round is the same in both states: loops, not time,
 * so that a thread without a CPU does none.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define STRIPES  64
#define PER_USEC 500

atomic_ulong rounds;
volatile sig_atomic_t gone;

pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct stripe {
	pthread_mutex_t mutex;
	char padding[128 - sizeof(pthread_mutex_t)];
} stripes[STRIPES] __attribute__((aligned(128)));
/* A lock, and what others write all the time: beside it, or on a line of its own. */
static struct beside {
	pthread_mutex_t mutex;
	volatile unsigned long hot;
	char padding[256];
	volatile unsigned long far;
} beside __attribute__((aligned(128))) = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static atomic_uint ticket, turn;

static void work(long us)
{
	for (long i = us * PER_USEC; i > 0; i--)
		__asm__ volatile("" ::: "memory");
}

static void sleep_us(long us)
{
	const struct timespec length = {.tv_nsec = us * 1000};

	nanosleep(&length, NULL);
}

static void locked(pthread_mutex_t *mutex, long us)
{
	pthread_mutex_lock(mutex);
	work(us);
	pthread_mutex_unlock(mutex);
}

/* Most of the work needs no lock. */
static void section(long thread)
{
	bool shorter = gone;

	locked(&table_mutex, shorter ? 20 : 300);
	work(shorter ? 300 : 20);
}

/* A mutex for each thread instead of one for all. */
static void split(long thread)
{
	locked(gone ? &stripes[thread % STRIPES].mutex : &table_mutex, 200);
	work(50);
}

/* Keys that fall on one stripe of a table of locks. */
static void collision(long thread)
{
	unsigned long key = (thread + 1) * 4096;

	locked(&stripes[(gone ? key ^ key >> 12 : key) % STRIPES].mutex, 200);
	work(50);
}

/* Thread 0 writes; the others count for the rounds. */
static void line(long thread)
{
	if (!thread) {
		for (int i = 0; i < 1000; i++)
			gone ? beside.far++ : beside.hot++;
		return;
	}
	for (int i = 0; i < 200; i++)
		locked(&beside.mutex, 0);
}

static void asleep(long thread)
{
	bool outside = gone;

	pthread_mutex_lock(&table_mutex);
	if (!outside)
		sleep_us(2000);
	pthread_mutex_unlock(&table_mutex);
	if (outside)
		sleep_us(2000);
	work(20);
}

/*
 * The gate is waited for most, and without it everybody waits in turn for a lock that is handed to the next one, whether
 * that has a CPU or not.
 */
static void gate(long thread)
{
	bool open = gone;
	unsigned mine;

	if (!open)
		pthread_mutex_lock(&gate_mutex);
	mine = ticket++;
	while (turn != mine)
		continue;
	work(20);
	turn++;
	if (!open)
		pthread_mutex_unlock(&gate_mutex);
}

/* The cause is one lock's holder that sleeps, and then another lock's. */
static void another(long thread)
{
	pthread_mutex_t *mutex = gone ? &gate_mutex : &table_mutex;

	pthread_mutex_lock(mutex);
	sleep_us(2000);
	pthread_mutex_unlock(mutex);
	work(20);
}

/* The switch changes nothing. */
static void nothing(long thread)
{
	locked(&table_mutex, 50);
	work(50);
}

static const struct program {
	const char *name;
	void (*round)(long thread);
} programs[] = {
	{"section", section}, {"split", split}, {"collision", collision}, {"line", line},
	{"asleep", asleep},   {"gate", gate},   {"another", another},     {"nothing", nothing},
};

static const struct program *program;

static void *run(void *argument)
{
	long thread = (long)argument;

	for (;;) {
		program->round(thread);
		if (thread || program->round != line)
			rounds++;
	}
	return NULL;
}

static void turn_switch(int number)
{
	gone = number == SIGUSR1;
}

int main(int argc, char **argv)
{
	long threads = argc == 3 ? atol(argv[2]) : 0;
	pthread_t thread;

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		if (threads > 0 && !strcmp(argv[1], programs[i].name))
			program = &programs[i];
	if (!program)
		die("usage: switched NAME THREADS");
	/* Never left behind by a test that was killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, turn_switch);
	signal(SIGUSR2, turn_switch);
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&stripes[i].mutex, NULL);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, run, (void *)i))
			die("cannot make a thread");
	for (;;)
		pause();
}
