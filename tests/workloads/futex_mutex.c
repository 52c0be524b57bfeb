// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * futex_mutex: waits in user space whose nature is known.
 *
 * "lock COUNT MICROSECONDS": a thread waits COUNT times for a pthread mutex that
 * the main thread holds for that time from the moment that the other sleeps.
 * "contend COUNT MICROSECONDS": THREADS threads take one mutex COUNT times each
 * and hold it for that time.
 * "work COUNT MICROSECONDS": idle workers wait for a condition; one of them is
 * given work COUNT times, each after that time.
 * "poll COUNT MICROSECONDS": a thread waits COUNT times for a condition that
 * never comes, with that timeout.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define THREADS 4

/* Static, so that the recording names them; in the order of the commands. */
pthread_mutex_t held_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t contended_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t work_condition = PTHREAD_COND_INITIALIZER;
pthread_mutex_t poll_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t poll_condition = PTHREAD_COND_INITIALIZER;

static struct command command;
static __u64 work, done;
static bool no_more_work;
static __u64 waited_ns, waits;

/* Bytes through pipes, so that what the workload says to itself is no futex wait. */
static int to_waiter[2], to_main[2];
static pid_t waiter_tid;

static void send_byte(const int pipe[2])
{
	if (write(pipe[1], "", 1) != 1)
		die("pipe: %s", strerror(errno));
}

static void receive_byte(const int pipe[2])
{
	char byte;

	while (read(pipe[0], &byte, 1) != 1)
		if (errno != EINTR)
			die("pipe: %s", strerror(errno));
}

static void hold_for(__u64 microseconds)
{
	wait_until_ns(now_ns() + microseconds * NSEC_PER_USEC);
}

static void *wait_for_held_mutex(void *unused)
{
	__u64 begin;

	waiter_tid = gettid();
	send_byte(to_main);
	for (__u64 i = 0; i < command.count; i++) {
		receive_byte(to_waiter);
		begin = now_ns();
		pthread_mutex_lock(&held_mutex);
		waited_ns += now_ns() - begin;
		pthread_mutex_unlock(&held_mutex);
		send_byte(to_main);
	}
	return unused;
}

static void lock(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_held_mutex, NULL))
		die("cannot make a thread");
	receive_byte(to_main);
	for (__u64 i = 0; i < command.count; i++) {
		pthread_mutex_lock(&held_mutex);
		send_byte(to_waiter);
		wait_until_blocked(getpid(), waiter_tid, SYS_futex);
		hold_for(command.microseconds);
		pthread_mutex_unlock(&held_mutex);
		receive_byte(to_main);
		waits++;
	}
	pthread_join(thread, NULL);
}

static void *take_contended_mutex(void *unused)
{
	for (__u64 i = 0; i < command.count; i++) {
		pthread_mutex_lock(&contended_mutex);
		hold_for(command.microseconds);
		pthread_mutex_unlock(&contended_mutex);
	}
	return unused;
}

static void *do_work(void *unused)
{
	pthread_mutex_lock(&work_mutex);
	for (;;) {
		while (!work && !no_more_work)
			pthread_cond_wait(&work_condition, &work_mutex);
		if (!work)
			break;
		work--;
		__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&work_mutex);
	return unused;
}

static void give_work(void)
{
	for (__u64 i = 0; i < command.count; i++) {
		struct timespec pause = {command.microseconds / 1000000, command.microseconds % 1000000 * 1000};

		nanosleep(&pause, NULL);
		pthread_mutex_lock(&work_mutex);
		work++;
		pthread_mutex_unlock(&work_mutex);
		/* Outside of the mutex, so that the woken worker has no need to wait for it. */
		pthread_cond_signal(&work_condition);
	}
	while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < command.count)
		usleep(1000);
	waits = done;
	done = 0;
	pthread_mutex_lock(&work_mutex);
	no_more_work = true;
	pthread_mutex_unlock(&work_mutex);
	pthread_cond_broadcast(&work_condition);
}

static void poll_for_nothing(void)
{
	pthread_mutex_lock(&poll_mutex);
	for (__u64 i = 0; i < command.count; i++) {
		struct timespec until;
		__u64 ns;

		clock_gettime(CLOCK_REALTIME, &until);
		ns = until.tv_nsec + command.microseconds * NSEC_PER_USEC;
		until.tv_sec += ns / NSEC_PER_SEC;
		until.tv_nsec = ns % NSEC_PER_SEC;
		if (pthread_cond_timedwait(&poll_condition, &poll_mutex, &until) != ETIMEDOUT)
			die("the condition came");
		waits++;
	}
	pthread_mutex_unlock(&poll_mutex);
}

static void with_threads(void *(*run)(void *), void (*meanwhile)(void))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			die("cannot make a thread");
	if (meanwhile)
		meanwhile();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	if (pipe(to_waiter) || pipe(to_main))
		die("pipe: %s", strerror(errno));
	commands_open();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("{\"event\": \"ready\", \"pid\": %d}\n", getpid());
	while (next_command(&command)) {
		waited_ns = waits = 0;
		no_more_work = false;
		if (!strcmp(command.word, "lock"))
			lock();
		else if (!strcmp(command.word, "contend"))
			with_threads(take_contended_mutex, NULL);
		else if (!strcmp(command.word, "work"))
			with_threads(do_work, give_work);
		else if (!strcmp(command.word, "poll"))
			poll_for_nothing();
		else
			die("no such command: %s", command.word);
		printf("{\"event\": \"done\", \"waits\": %llu, \"waited_ns\": %llu}\n", waits, waited_ns);
	}
	return 0;
}
