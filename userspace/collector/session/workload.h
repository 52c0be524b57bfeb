/* SPDX-License-Identifier: GPL-2.0-or-later */
/* COMMAND: started before the probes, held until they are attached. */
#ifndef LOCKLINE_WORKLOAD_H
#define LOCKLINE_WORKLOAD_H

#include <stdbool.h>
#include <sys/types.h>

struct workload {
	pid_t pid; /* 0: none */
	int start; /* closing it lets the command go */
	int error; /* carries the errno of a failed exec */
	bool held; /* stopped, with its program in memory */
};

int workload_prepare(struct workload *workload, char **argv);
/* Lets it go, held until workload_run() if so wanted; a command that cannot be executed has been told. */
int workload_start(struct workload *workload, const char *name, bool held);
void workload_run(struct workload *workload);
/* Whether it has ended. */
bool workload_ended(struct workload *workload);
/* Asks one that still runs to end, and waits for it. */
void workload_stop(struct workload *workload);

#endif /* LOCKLINE_WORKLOAD_H */
