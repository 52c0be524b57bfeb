// SPDX-License-Identifier: GPL-2.0-or-later
/* attach_often COUNT: attaches to a child COUNT times, by PTRACE_SEIZE, and once to itself, which is refused. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

int main(int argc, char **argv)
{
	long count = argc == 2 ? atol(argv[1]) : 0;
	pid_t child;
	int status;

	if (count <= 0)
		die("usage: attach_often COUNT");
	child = fork();
	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child)
		for (;;)
			pause();
	for (long i = 0; i < count; i++) {
		if (ptrace(PTRACE_SEIZE, child, NULL, NULL) || ptrace(PTRACE_INTERRUPT, child, NULL, NULL) ||
		    waitpid(child, &status, 0) != child || ptrace(PTRACE_DETACH, child, NULL, NULL))
			die("ptrace: %s", strerror(errno));
	}
	if (!ptrace(PTRACE_SEIZE, getpid(), NULL, NULL))
		die("attached to itself");
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return 0;
}
