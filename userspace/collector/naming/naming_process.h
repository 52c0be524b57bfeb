/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The naming helper as a process: its start, its end, and its CPU time. */
#ifndef LOCKLINE_NAMING_PROCESS_H
#define LOCKLINE_NAMING_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>
#include <linux/types.h>

/* So many such helpers are borne, which no signal ends; with more of them nothing is named until one has ended. */
#define NAMING_MOST_LEFT 16

struct naming_process {
	int socket; /* -1: none runs */
	pid_t pid;
	__u64 starts;
	__u64 first_start_ns;         /* when the first one might have started */
	pid_t left[NAMING_MOST_LEFT]; /* 0: free */
	__u64 ended_cpu_ns;           /* of all that have ended */
	__u64 running_cpu_ns;         /* of the one that runs, at its last answer: later it sleeps */
};

/* Negative errno; -EAGAIN: too many were started, or do not end. */
int naming_process_start(struct naming_process *process);
/* If one runs. */
void naming_process_stop(struct naming_process *process);
/* Of the one that runs; false: it is gone. */
bool naming_process_cpu_ns(const struct naming_process *process, __u64 *out);

#endif /* LOCKLINE_NAMING_PROCESS_H */
