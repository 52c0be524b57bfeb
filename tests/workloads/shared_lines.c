// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * shared_lines: cache lines that two threads on CPUs of their own share in a known way.
 *
 * "members COUNT PHASE", "member", "lines": COUNT times each, strictly in turn, the threads add one to two members of
 * a line, to one, or to members of two lines.  Each turn but the first finds its line modified by the other
 * thread; with two lines, none does.
 * "futex COUNT PHASE": each thread makes COUNT rounds on a futex's bucket: a wait for a value that the word does not
 * have, as `perf bench futex hash` does it; a wake that finds a sleeper, but not one that it may wake; every
 * eighth round a wait whose time is over.  Of futex_hash_bucket they touch waiters, lock and chain.
 *
 * PHASE is marked for tests/vm/coherence, which counts between marks; 0: no mark.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

#include "marks.h"
#include "workload.h"

#define THREADS       2
#define LINE          64
#define SECOND_MEMBER 32

struct place {
	volatile __u64 *member[THREADS];
};

/* Static, so that symbols name them; each of two lines. */
char members_line[2 * LINE] __attribute__((aligned(2 * LINE)));
char member_line[2 * LINE] __attribute__((aligned(2 * LINE)));
char two_lines[2 * LINE] __attribute__((aligned(2 * LINE)));

static const struct place places[] = {
	{{(void *)members_line, (void *)(members_line + SECOND_MEMBER)}},
	{{(void *)member_line, (void *)member_line}},
	{{(void *)two_lines, (void *)(two_lines + LINE)}},
};
static const char *const names[] = {"members", "member", "lines"};

/* On lines of their own: whose turn it is, and the futexes' words. */
static unsigned int turn __attribute__((aligned(2 * LINE)));
static unsigned int futex_word __attribute__((aligned(2 * LINE)));
static bool ending;

static const struct place *place;
static __u64 rounds, begin_ns, end_ns;
static char *marks;

static void pause_cpu(void)
{
#ifdef __x86_64__
	/* An emulator that runs all CPUs in one thread goes on with the next one. */
	asm volatile("pause" ::: "memory");
#elif defined(__aarch64__)
	asm volatile("yield" ::: "memory");
#endif
}

static void *take_turns(void *argument)
{
	unsigned int self = (long)argument;
	volatile __u64 *member = place->member[self];

	pin_to_cpu(self);
	for (__u64 i = 0; i < rounds; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != self)
			pause_cpu();
		++*member;
		__atomic_store_n(&turn, !self, __ATOMIC_RELEASE);
	}
	return NULL;
}

static long futex(int operation, unsigned int value, const struct timespec *timeout, unsigned int bits)
{
	return syscall(SYS_futex, &futex_word, operation | FUTEX_PRIVATE_FLAG, value, timeout, NULL, bits);
}

/* In the bucket from before the first round to after the last. */
static void *sleep_in_bucket(void *argument)
{
	pid_t *sleeper = argument;

	pin_to_cpu(0);
	__atomic_store_n(sleeper, gettid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&ending, __ATOMIC_ACQUIRE))
		futex(FUTEX_WAIT_BITSET, 0, NULL, 1);
	return NULL;
}

static void *use_bucket(void *argument)
{
	const struct timespec long_ago = {.tv_nsec = 1};

	pin_to_cpu((long)argument);
	for (__u64 i = 0; i < rounds; i++) {
		if (futex(FUTEX_WAIT, 1, NULL, 0) != -1 || errno != EAGAIN)
			die("FUTEX_WAIT: %s", strerror(errno));
		pause_cpu();
		if (futex(FUTEX_WAKE_BITSET, 1, NULL, 2))
			die("FUTEX_WAKE_BITSET: %s", strerror(errno));
		pause_cpu();
		/* Not to be woken either. */
		if (i % 8 == 7 && (futex(FUTEX_WAIT_BITSET, 0, &long_ago, 1) != -1 || errno != ETIMEDOUT))
			die("FUTEX_WAIT_BITSET: %s", strerror(errno));
	}
	return NULL;
}

static void mark(__u64 phase)
{
	*(volatile char *)(marks + phase) = 1;
}

static void run_both(void *(*run)(void *))
{
	pthread_t other;

	if (pthread_create(&other, NULL, run, (void *)1L))
		die("cannot make a thread");
	run(NULL);
	pthread_join(other, NULL);
}

static void begin(__u64 phase)
{
	begin_ns = now_ns();
	if (phase)
		mark(phase);
}

static void end(__u64 phase)
{
	if (phase)
		mark(0);
	end_ns = now_ns();
}

static void take_turns_at(const struct place *at, __u64 phase)
{
	place = at;
	/* The pages are there before they are counted. */
	for (int i = 0; i < THREADS; i++)
		*at->member[i] = 0;
	begin(phase);
	run_both(take_turns);
	end(phase);
	printf("{\"event\": \"turns\", \"phase\": %llu, \"begin_ns\": %llu, \"end_ns\": %llu, \"members\": [%llu, "
	       "%llu], "
	       "\"values\": [%llu, %llu]}\n",
	       phase, begin_ns, end_ns, (__u64)at->member[0], (__u64)at->member[1], *at->member[0], *at->member[1]);
}

/* Whoever watches the bucket all the time sees what lies between the marks, and no more. */
static void share_bucket(__u64 phase)
{
	pid_t sleeper = 0;
	pthread_t thread;

	__atomic_store_n(&ending, false, __ATOMIC_RELEASE);
	futex_word = 0;
	begin(phase);
	if (pthread_create(&thread, NULL, sleep_in_bucket, &sleeper))
		die("cannot make a thread");
	while (!__atomic_load_n(&sleeper, __ATOMIC_ACQUIRE))
		pause_cpu();
	wait_until_blocked(getpid(), sleeper, SYS_futex);
	run_both(use_bucket);
	__atomic_store_n(&ending, true, __ATOMIC_RELEASE);
	while (!futex(FUTEX_WAKE, 1, NULL, 0))
		pause_cpu();
	pthread_join(thread, NULL);
	end(phase);
	printf("{\"event\": \"futexes\", \"phase\": %llu, \"begin_ns\": %llu, \"end_ns\": %llu, \"word\": %llu}\n",
	       phase, begin_ns, end_ns, (__u64)&futex_word);
}

int main(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	struct command command;
	size_t i;

	marks = mmap((void *)MARKS, MARKS_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (marks != (char *)MARKS)
		die("cannot map the marks: %s", strerror(errno));
	commands_open();
	pin_to_cpu(0);
	printf("{\"event\": \"ready\", \"pid\": %d, \"word\": %llu}\n", getpid(), (__u64)&futex_word);
	while (next_command(&command)) {
		if (command.microseconds > MOST_PHASES)
			die("phase %llu has no mark", command.microseconds);
		rounds = command.count;
		for (i = 0; i < sizeof(names) / sizeof(names[0]) && strcmp(command.word, names[i]); i++)
			;
		if (i < sizeof(names) / sizeof(names[0]))
			take_turns_at(&places[i], command.microseconds);
		else if (!strcmp(command.word, "futex"))
			share_bucket(command.microseconds);
		else
			die("unknown command '%s'; members, member, lines and futex are known", command.word);
	}
	return 0;
}
