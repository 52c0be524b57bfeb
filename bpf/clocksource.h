/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs around a clock device's reads (record --clocksource) share with the collector. */
#ifndef LOCKLINE_CLOCKSOURCE_H
#define LOCKLINE_CLOCKSOURCE_H

#include "lockline.h"

#define CLOCK_RING_READS   64 /* per CPU */
#define CLOCK_TOKENS       4  /* samples between two looks at a CPU's ring */
#define CLOCK_CYCLES_SHIFT 22 /* ns = cycles * clock_cycles_mult >> this */

/* One per CPU, written by it alone but for tokens. */
struct clock_state {
	__u64 begin; /* of the read in progress, in cycles; 0: none */
	__u64 reads;
	__u64 read_ns;
	__u64 max_ns;
	__u64 unmatched; /* reads that another one interrupted: counted, without a time */
	__u64 events;    /* ever started in this CPU's ring */
	__u64 pending_reads;
	__u64 pending_ns;
	__u32 tokens;
	__u32 pad[15];
	__u32 histogram[HISTOGRAM_BUCKETS];
};

struct clock_read {
	__u64 sequence; /* as in struct wait_event */
	__u64 read_ns;  /* of the reads that it stands for */
	__u64 reads;
	__u32 tid;
	__u32 tgid;
	__s32 kernel_frames;
	__u32 pad;
	char comm[16];
	__u64 kernel[STACK_FRAMES];
};

_Static_assert(sizeof(struct clock_state) % CACHE_LINE == 0, "CPUs share no line");

#endif /* LOCKLINE_CLOCKSOURCE_H */
