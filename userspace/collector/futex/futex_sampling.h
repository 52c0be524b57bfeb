/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many waits and wakes each CPU may sample until the rings are read again.  A sample's stack is copied, unwound
 * and named, which takes 0.2 ms of CPU: so the rate is one of the machine, not of a CPU, and follows what was taken.
 */
#ifndef LOCKLINE_FUTEX_SAMPLING_H
#define LOCKLINE_FUTEX_SAMPLING_H

#include <linux/types.h>

/* Samples a second, waits and wakes together; more are unwound than stored where a program is new. */
#define FUTEX_SAMPLES_A_SECOND 60
/* So many times that at once at the beginning: a recording of a second has enough of them. */
#define FUTEX_SECONDS_AT_FIRST 4

struct futex_sampling {
	double ordinary; /* of each CPU and kind, for a row that has some already */
	double reserved; /* likewise, for one that has few */
	double credit;   /* samples that may come beyond the rate */
	__u64 last_ns;   /* when the rings were read; 0: not yet */
	__u32 a_second;  /* samples; 0: FUTEX_SAMPLES_A_SECOND */
	__u32 turn;
};

/* The rings of so many CPUs were read at now_ns, and had so many new samples. */
void futex_sampling_read(struct futex_sampling *sampling, __u32 cpus, __u64 now_ns, __u64 taken);
/* What this CPU gets, for its waits as for its wakes: see takes_token() in bpf/futex.bpf.c. */
__u32 futex_sampling_tokens(const struct futex_sampling *sampling, __u32 cpu);

#endif /* LOCKLINE_FUTEX_SAMPLING_H */
