/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One memory access, whatever told of it. */
#ifndef LOCKLINE_MEMORY_SAMPLE_H
#define LOCKLINE_MEMORY_SAMPLE_H

#include <linux/types.h>

#define MEMORY_NO_TIME (~0ull)
#define MEMORY_NO_ID   (~0u) /* of a process, thread or CPU that the sample does not tell */

struct memory_sample {
	__u64 time; /* ns; MEMORY_NO_TIME */
	__u64 ip;
	__u64 address;
	__u64 physical; /* 0: not known */
	__u64 data_src; /* union perf_mem_data_src; PERF_MEM_DATA_SRC_NONE without the field */
	__u64 weight;   /* cycles */
	__u32 pid;
	__u32 tid;
	__u32 cpu;
	__u8 cpumode; /* enum cpumode */
	/* Of a live sample: */
	__u8 wait_kind; /* enum lock_kind */
	__u32 live;     /* ACCESS_IN_WAIT, ACCESS_INTERRUPTS_* */
	__u64 lock;     /* that was waited for; 0: none */
};

#endif /* LOCKLINE_MEMORY_SAMPLE_H */
