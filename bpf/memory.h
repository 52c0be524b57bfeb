/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the program of the PMU's memory samples (record --hitm) shares with the collector. */
#ifndef LOCKLINE_MEMORY_H
#define LOCKLINE_MEMORY_H

#include "lockline.h"

#define MEMORY_RING_SAMPLES 512 /* per CPU: at 10,000 a second the collector's 50 ms */

#define MEMORY_INTERRUPTS_ON  (1u << 0)
#define MEMORY_INTERRUPTS_OFF (1u << 1) /* neither: not known */

/* Two cache lines, in an overwriting ring of each CPU. */
struct memory_record {
	__u64 sequence; /* as in struct wait_event */
	__u64 time_ns;
	__u64 address;
	__u64 ip;
	__u64 data_src; /* union perf_mem_data_src, never one that tells nothing */
	__u64 physical; /* 0: not known */
	__u64 lock;     /* of the wait in flight, of this CPU or of the task; 0: none */
	__u32 weight;   /* cycles; 0: not known */
	__u32 tid;
	__u32 tgid;
	__u8 kind;  /* of the wait, enum lock_kind */
	__u8 flags; /* MEMORY_* */
	__u16 pad;
	char comm[16];
	__u64 pad_to_lines[5];
};

/*
 * One per CPU, written by it alone and by this program alone: samples come in
 * NMIs, in the midst of any other program.
 */
struct memory_state {
	__u64 records;        /* ever started in this CPU's ring */
	__u64 samples;        /* that the filters let in: records, and the next two */
	__u64 without_source; /* no data source, or of an operation on no memory */
	__u64 without_address;
	__u64 filtered;
	__u64 nested; /* samples inside of a sample: counted here alone */
	__u32 busy;
	__u32 pad[3];
};

_Static_assert(sizeof(struct memory_record) == 2 * CACHE_LINE, "records share no line");
_Static_assert(sizeof(struct memory_state) == CACHE_LINE, "CPUs share no line");

#endif /* LOCKLINE_MEMORY_H */
