// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lock_load futex|directory|fork|ptrace THREADS: makes threads wait for kernel locks
 * until it is killed, where stress-ng is not at hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/futex.h>

#include "workload.h"

static int word;

/* A wait for a value that the word does not have takes the bucket's lock and returns. */
static void futex(long thread)
{
	if (syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL, NULL, 0) != -1 || errno != EAGAIN)
		die("futex: %s", strerror(errno));
}

static void directory(long thread)
{
	char name[32];
	int file;

	snprintf(name, sizeof(name), "lock_load.%ld", thread);
	file = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (file < 0 || close(file) || unlink(name))
		die("%s: %s", name, strerror(errno));
}

static void fork_and_wait(long thread)
{
	pid_t child = fork();

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child)
		_exit(0);
	if (waitpid(child, NULL, 0) != child)
		die("waitpid: %s", strerror(errno));
}

#define STOPS 100

/* Each request to a tracee waits until it has stopped running (wait_task_inactive()). */
static void trace(long thread)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		for (;;)
			syscall(SYS_getppid);
	}
	for (int stop = 0; stop < STOPS; stop++)
		if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
		    ptrace(PTRACE_SYSCALL, child, NULL, NULL))
			die("ptrace: %s", strerror(errno));
	kill(child, SIGKILL);
	while (waitpid(child, &status, 0) == child && !WIFSIGNALED(status))
		;
}

static void (*round_of_load)(long thread);

static void *run(void *argument)
{
	for (;;)
		round_of_load((long)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*round)(long thread);
	} loads[] = {{"futex", futex}, {"directory", directory}, {"fork", fork_and_wait}, {"ptrace", trace}};
	long threads = argc == 3 ? atol(argv[2]) : 0;
	pthread_t thread;

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		if (threads > 0 && !strcmp(argv[1], loads[i].name))
			round_of_load = loads[i].round;
	if (!round_of_load)
		die("usage: lock_load futex|directory|fork|ptrace THREADS");
	for (long i = 1; i < threads; i++)
		if (pthread_create(&thread, NULL, run, (void *)i))
			die("cannot make a thread");
	run(NULL);
}
