// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two pinned threads, each with a member of its own in memory that they share.
 *
 *	ping_pong MEMBERS ORDER [CPU CPU]
 *
 * MEMBERS: same: both write one member; line: each its own, in one cache line;
 * lines: each its own, in lines of their own.  ORDER: turns: each looks at the
 * other's member until that has the other's last write, and writes its own;
 * tokens: the same, but it sleeps until the other has written, and looks once;
 * so in both the transfers are known.  free: neither looks at the other, and the
 * writes are plain stores.
 *
 * "go COUNT MICROSECONDS" makes each thread write COUNT times, and rest so long
 * before each write.  It tells the addresses when it is ready; after each round
 * how long that took.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

/* Named, so that a reader of the line can be told the members. */
struct ping_pong_line {
	_Atomic __u64 first;
	__u64 unused[2];
	_Atomic __u64 second; /* in another watchpoint than first */
	__u64 rest[4];
};

struct ping_pong_line ping_pong_lines[2] __attribute__((aligned(64)));

struct side {
	pthread_t thread;
	int cpu;
	int number;
	_Atomic __u64 *own;   /* that it writes */
	_Atomic __u64 *other; /* that it waits for */
	int token;            /* an eventfd: it may go on */
	int other_token;
};

static enum { TURNS, TOKENS, FREE } order;
static __u64 done, rounds; /* writes of each thread before, and in this round */
static __u64 pause_ns;
static pthread_barrier_t begin, end;

static void rest(void)
{
	const struct timespec pause = {.tv_nsec = pause_ns};

	if (pause_ns)
		nanosleep(&pause, NULL);
}

static void take_tokens(const struct side *side)
{
	const __u64 one = 1;
	__u64 value;

	for (__u64 i = done; i < done + rounds; i++) {
		if (read(side->token, &value, sizeof(value)) != sizeof(value))
			die("no token");
		(void)atomic_load_explicit(side->other, memory_order_acquire);
		rest();
		atomic_store_explicit(side->own, i + 1, memory_order_release);
		if (write(side->other_token, &one, sizeof(one)) != sizeof(one))
			die("no token");
	}
}

/* Strictly alternating: the value that a member has tells whose turn it is. */
static void take_turns(const struct side *side)
{
	for (__u64 i = done; i < done + rounds; i++) {
		if (side->own == side->other) {
			while (atomic_load_explicit(side->own, memory_order_acquire) != 2 * i + side->number)
				;
			rest();
			atomic_store_explicit(side->own, 2 * i + side->number + 1, memory_order_release);
			continue;
		}
		while (atomic_load_explicit(side->other, memory_order_acquire) != i + side->number)
			;
		rest();
		atomic_store_explicit(side->own, i + 1, memory_order_release);
	}
}

static void run_free(const struct side *side)
{
	for (__u64 i = 0; i < rounds; i++) {
		rest();
		atomic_store_explicit(side->own, i, memory_order_relaxed);
	}
}

static void *run(void *data)
{
	const struct side *side = data;

	pin_to_cpu(side->cpu);
	for (;;) {
		pthread_barrier_wait(&begin);
		if (order == TURNS)
			take_turns(side);
		else if (order == TOKENS)
			take_tokens(side);
		else
			run_free(side);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static _Atomic __u64 *member(const char *members, int number)
{
	if (!strcmp(members, "same") || !number)
		return &ping_pong_lines[0].first;
	if (!strcmp(members, "line"))
		return &ping_pong_lines[0].second;
	if (!strcmp(members, "lines"))
		return &ping_pong_lines[1].second;
	die("%s: not same, line or lines", members);
}

int main(int argc, char **argv)
{
	static struct side sides[2];
	struct command command;
	int tokens[2];

	if (argc != 3 && argc != 5)
		die("usage: ping_pong same|line|lines turns|tokens|free [CPU CPU]");
	order = !strcmp(argv[2], "turns") ? TURNS : !strcmp(argv[2], "tokens") ? TOKENS : FREE;
	if (order == FREE && strcmp(argv[2], "free"))
		die("%s: not turns, tokens or free", argv[2]);
	commands_open();
	pthread_barrier_init(&begin, NULL, 3);
	pthread_barrier_init(&end, NULL, 3);
	for (int i = 0; i < 2; i++) {
		tokens[i] = eventfd(!i, EFD_CLOEXEC);
		if (tokens[i] < 0)
			die("cannot make an eventfd");
	}
	for (int i = 0; i < 2; i++) {
		sides[i] = (struct side){.cpu = argc == 5 ? atoi(argv[3 + i]) : i,
					 .number = i,
					 .own = member(argv[1], i),
					 .other = member(argv[1], !i),
					 .token = tokens[i],
					 .other_token = tokens[!i]};
		if (pthread_create(&sides[i].thread, NULL, run, &sides[i]))
			die("cannot start a thread");
	}
	printf("{\"event\": \"ready\", \"pid\": %d, \"first\": %lu, \"second\": %lu, \"line\": %lu}\n", getpid(),
	       (unsigned long)sides[0].own, (unsigned long)sides[1].own, (unsigned long)ping_pong_lines);
	fflush(stdout);
	while (next_command(&command)) {
		__u64 from;

		rounds = command.count;
		pause_ns = command.microseconds * NSEC_PER_USEC;
		from = now_ns();
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		done += rounds;
		printf("{\"event\": \"done\", \"writes\": %llu, \"begin_ns\": %llu, \"end_ns\": %llu}\n", rounds, from,
		       now_ns());
		fflush(stdout);
	}
	return 0;
}
