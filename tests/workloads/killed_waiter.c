// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * killed_waiter: waits that end by SIGKILL.  One reader of a terminal sleeps
 * for input and holds the terminal's atomic_read_lock; a second reader waits
 * for that mutex, interruptibly, and is killed there: the wait ends with -EINTR.
 *
 * "go COUNT MICROSECONDS": COUNT waiters, each killed after that time.
 * "leave 1 MICROSECONDS": leaves a waiter that has waited for that time in its
 * wait, until the next command or the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

/* A child that reads the terminal for ever. */
static pid_t start_reader(int terminal)
{
	pid_t parent = getpid(), pid = fork();
	char byte;

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* The name tells the waiter from the holder in a recording. */
	prctl(PR_SET_NAME, "terminal_reader");
	while (read(terminal, &byte, 1) >= 0)
		continue;
	_exit(1);
}

static void end_reader(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
}

int main(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), terminal;
	pid_t holder, waiter, left = 0;
	struct command command;
	__u64 seen_ns, round;

	if (master < 0 || grantpt(master) || unlockpt(master))
		die("cannot make a terminal: %s", strerror(errno));
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (terminal < 0)
		die("cannot open the terminal: %s", strerror(errno));
	commands_open();
	holder = start_reader(terminal);
	wait_until_blocked(holder, holder, SYS_read);
	printf("{\"event\": \"ready\", \"pid\": %d, \"holder\": %d}\n", getpid(), holder);
	while (next_command(&command)) {
		if (left)
			end_reader(left);
		left = 0;
		if (!strcmp(command.word, "leave")) {
			left = start_reader(terminal);
			wait_until_blocked(left, left, SYS_read);
			wait_until_ns(now_ns() + command.microseconds * NSEC_PER_USEC);
			printf("{\"event\": \"left\", \"waiter\": %d}\n", left);
			continue;
		}
		printf("{\"event\": \"waits\", \"waiters\": [");
		for (round = 0; round < command.count; round++) {
			waiter = start_reader(terminal);
			wait_until_blocked(waiter, waiter, SYS_read);
			seen_ns = now_ns();
			wait_until_ns(seen_ns + command.microseconds * NSEC_PER_USEC);
			printf("%s{\"tid\": %d, \"lower_ns\": %llu}", round ? ", " : "", waiter, now_ns() - seen_ns);
			end_reader(waiter);
		}
		printf("]}\n");
	}
	if (left)
		end_reader(left);
	end_reader(holder);
	return 0;
}
