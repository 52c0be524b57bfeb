// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * counted PHASE [COMMAND...]: what an emulated guest executes while a command runs is counted as phase 1 to 255
 * (counting.h).  Without a command the phase lasts until the next; 0 ends it.
 */
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "counting.h"
#include "workload.h"

extern char **environ;

static void mark(unsigned char phase)
{
	int error = count_phase(phase);

	if (error)
		die("cannot mark a phase: %s", strerror(-error));
}

int main(int argc, char **argv)
{
	int phase = argc > 1 ? atoi(argv[1]) : -1, status = 0, error;
	pid_t child;

	if (phase < 0 || phase > COUNTED_PHASES)
		die("usage: counted PHASE [COMMAND...]");
	mark(phase);
	if (argc == 2)
		return 0;
	error = posix_spawnp(&child, argv[2], NULL, NULL, argv + 2, environ);
	if (error)
		die("%s: %s", argv[2], strerror(error));
	if (waitpid(child, &status, 0) != child)
		die("waitpid: %s", strerror(errno));
	mark(0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
