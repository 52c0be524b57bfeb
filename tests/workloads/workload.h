/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the workloads share.  A workload says {"event": "ready", ...} when it is
 * set up, does a round for each "go ..." line on stdin, prints what truly
 * happened as one JSON line per round, and ends at end of input or SIGTERM.
 * Nothing here sleeps in the hope that something has happened meanwhile:
 * every wait polls the state that it waits for.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>
#include <sys/types.h>
#include <linux/types.h>

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_SEC  1000000000ull

/* CLOCK_MONOTONIC, as in recordings. */
__u64 now_ns(void);

/* Says why on stderr and exits with 1. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The calling thread stays on one CPU. */
void pin_to_cpu(int cpu);

/*
 * Waits until the thread has left the CPU inside the system call, which
 * /proc/PID/task/TID/syscall proves; 10 s without that end the workload.
 */
void wait_until_blocked(pid_t pid, pid_t tid, long system_call);

/* Runs until CLOCK_MONOTONIC says so. */
void wait_until_ns(__u64 ns);

struct command {
	char word[16];
	__u64 count;
	__u64 microseconds;
};

/* Blocks SIGTERM outside of next_command().  Call before any thread is made. */
void commands_open(void);

/* The next line of stdin: WORD [COUNT [MICROSECONDS]].  False at the end of input or SIGTERM. */
bool next_command(struct command *command);

#endif /* WORKLOAD_H */
