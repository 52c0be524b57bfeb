/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many waits and wakes each CPU may sample until the rings are read again.  A sample's stack is copied, unwound
 * and named: 0.2 ms of CPU where it is new, a tenth of that where its like was unwound before.  So the rate is one of
 * the machine, not of a CPU; it follows what was taken and, unless a number was asked for, what that cost.
 */
#ifndef LOCKLINE_FUTEX_SAMPLING_H
#define LOCKLINE_FUTEX_SAMPLING_H

#include <stdbool.h>
#include <linux/types.h>

#include "naming/naming_queue.h"

/* Samples a second, waits and wakes together; more are unwound than stored where a program is new. */
#define FUTEX_SAMPLES_A_SECOND      60
#define FUTEX_MOST_SAMPLES_A_SECOND 240
/*
 * Beyond the least there are as many as take so much CPU time of a second, and this at once at the beginning, when all
 * stacks are new.
 */
#define FUTEX_STACKS_CPU_NS 4000000.0
#define FUTEX_FIRST_CPU_NS  150000000.0
/* What the copy and the recording take of a sample, beside its stack. */
#define FUTEX_SAMPLE_NS 20000.0
/* So many times that at once at the beginning: a recording of a second has enough of them. */
#define FUTEX_SECONDS_AT_FIRST 4

struct futex_share {
	double ordinary; /* of each CPU, for a row that has some already */
	double reserved; /* likewise, for one that has few */
	double credit;   /* samples that may come beyond the rate */
};

/* Waits and wakes have shares of their own: nearly each wake is of some row, and they would take what waits are due. */
struct futex_sampling {
	struct futex_share waits, wakes;
	__u64 last_ns;  /* when the rings were read; 0: not yet */
	__u32 a_second; /* samples, as they were asked for; 0: by what they cost */
	__u32 turn;
	double cpu_ns; /* CPU time that stacks may still take, or took too much */
	__u64 seen_ns; /* of struct naming_pace */
	bool full;     /* the queue of stacks has no room for any */
};

/*
 * The rings of so many CPUs were read at now_ns, and had so many new samples of waits, and of wakes; pace: of the stacks
 * that were copied.
 */
void futex_sampling_read(struct futex_sampling *sampling, __u32 cpus, __u64 now_ns, __u64 waits, __u64 wakes,
			 const struct naming_pace *pace);
/* How many samples a row may have that takes another one: what it was on that CPU, tokens that it got, and has left. */
__u32 futex_sampling_level(__u32 level, __u32 got, __u32 left);
/* What this CPU gets for its waits, and for its wakes: see takes_token() in bpf/futex.bpf.c. */
__u32 futex_sampling_waits(const struct futex_sampling *sampling, __u32 cpu);
__u32 futex_sampling_wakes(const struct futex_sampling *sampling, __u32 cpu);

#endif /* LOCKLINE_FUTEX_SAMPLING_H */
