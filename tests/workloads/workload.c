// SPDX-License-Identifier: GPL-2.0-or-later
#include "workload.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEADLINE_NS (10 * NSEC_PER_SEC)

static volatile sig_atomic_t stopped;

__u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

void pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cannot run on CPU %d: %s", cpu, strerror(errno));
}

void wait_until_blocked(pid_t pid, pid_t tid, long system_call)
{
	const struct timespec pause = {.tv_nsec = 20 * NSEC_PER_USEC};
	__u64 deadline = now_ns() + DEADLINE_NS;
	char path[64], line[128];
	FILE *file;
	long seen;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	while (now_ns() < deadline) {
		file = fopen(path, "re");
		if (!file)
			die("cannot read %s: %s", path, strerror(errno));
		seen = -1;
		if (fgets(line, sizeof(line), file) && sscanf(line, "%ld", &seen) != 1)
			seen = -1; /* "running" */
		fclose(file);
		if (seen == system_call)
			return;
		nanosleep(&pause, NULL);
	}
	die("thread %d did not block in system call %ld within 10 s", tid, system_call);
}

void wait_until_ns(__u64 ns)
{
	struct timespec until = {.tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		continue;
}

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

void commands_open(void)
{
	struct sigaction action = {.sa_handler = stop};
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	sigaction(SIGTERM, &action, NULL);
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

bool next_command(struct command *command)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned long long count = 1, microseconds = 1000;
	char line[128];
	sigset_t none;

	sigemptyset(&none);
	while (ppoll(&input, 1, NULL, &none) < 0 && !stopped)
		continue;
	if (stopped || !fgets(line, sizeof(line), stdin))
		return false;
	if (sscanf(line, "%15s %llu %llu", command->word, &count, &microseconds) < 1)
		die("empty command");
	command->count = count;
	command->microseconds = microseconds;
	return true;
}
