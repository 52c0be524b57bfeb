/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads of a clock device that all CPUs share (record --clocksource): timed in CPU cycles, summed, stored. */
#ifndef LOCKLINE_CLOCK_READS_H
#define LOCKLINE_CLOCK_READS_H

#include <stdbool.h>
#include <linux/types.h>

#include "recording/recording.h"
#include "waits/stacks.h"

struct clock_reads;
struct lockline_bpf;

/* Before load; function: whose reads are recorded, NULL: none. */
int clock_reads_resize(struct lockline_bpf *bpf, __u32 cpus, const char *function);
/* After load.  Without a counter of cycles reads are counted alone. */
int clock_reads_open(struct clock_reads **out, struct lockline_bpf *bpf, __u32 cpus, struct recording *recording,
		     const struct stacks *stacks, const char *function);
void clock_reads_close(struct clock_reads *reads);
int clock_reads_drain(struct clock_reads *reads);
/* Copies what the rings hold; clock_reads_drain() reads it later. */
void clock_reads_put_aside(struct clock_reads *reads);
int clock_reads_flush(struct clock_reads *reads);

#endif /* LOCKLINE_CLOCK_READS_H */
