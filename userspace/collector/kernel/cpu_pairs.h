/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hardware's limits: how long a cache line takes from one CPU to another,
 * and how far their clocks are apart.  Two pinned threads pass a line to and
 * fro; needs no rights, and stays on the CPUs that this process may use.
 */
#ifndef LOCKLINE_CPU_PAIRS_H
#define LOCKLINE_CPU_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "kernel/cpu_topology.h"

struct json;
struct recording;

#define MOST_PAIRS 120

/* How far readings were behind readings made before them on the other CPU. */
struct warp {
	__u64 readings;
	__u64 worst; /* 0: never behind */
};

struct cpu_pair {
	struct cpu_choice cpus;
	double transfer_ns; /* one way, median of blocks of rounds */
	double least_transfer_ns;
	__u32 rounds;           /* timed; 0: the two never ran at the same time */
	struct warp clock[2];   /* CLOCK_MONOTONIC in ns; of the first CPU, and of the second */
	struct warp counter[2]; /* the CPU's own counter, in its ticks */
};

struct cpu_pairs {
	__u32 cpus;     /* that this process may use */
	__u64 possible; /* pairs of them */
	__u32 chosen;
	__u32 measured;    /* the time was enough for */
	double counter_hz; /* 0: not known */
	struct cpu_pair pairs[MOST_PAIRS];
};

extern const char *const cpu_counter_name; /* "TSC", "CNTVCT_EL0", or "" */

/* A reading made after another one was known. */
void warp_judge(struct warp *warp, __u64 before, __u64 after);
/* Of lengths in ns, which are put in order: least, and median. */
void transfer_judge(struct cpu_pair *pair, double *lengths, size_t count);

/* Of `doctor`, and of `record`, which is to begin soon. */
#define DEEP_NS        3000000000ull
#define DEEP_RECORD_NS 200000000ull

/*
 * Measures: spreads time_ns over the pairs, and takes up to 12 s where the CPUs
 * are too busy for that.  Negative errno, told, if no thread can be had.
 */
int cpu_pairs_open(struct cpu_pairs **pairs, __u64 time_ns);
void cpu_pairs_close(struct cpu_pairs *pairs);

/* The object "cpu_pairs" of lockline-doctor/1. */
void cpu_pairs_json(const struct cpu_pairs *pairs, struct json *json);
/* Measures for a recording that is to begin, and writes its tables and facts. */
int cpu_pairs_record(struct recording *recording);

#endif /* LOCKLINE_CPU_PAIRS_H */
