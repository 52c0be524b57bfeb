/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers of samples of perf_event_open(), in files and in rings: include/uapi/linux/perf_event.h, Linux 7.2.  The
 * build machine's own header is not used: it may be older than a file.
 */
#ifndef LOCKLINE_PERF_SAMPLES_H
#define LOCKLINE_PERF_SAMPLES_H

enum cpumode {
	CPUMODE_UNKNOWN,
	CPUMODE_KERNEL,
	CPUMODE_USER,
	CPUMODE_HYPERVISOR,
	CPUMODE_GUEST_KERNEL,
	CPUMODE_GUEST_USER,
};

enum perf_sample_bit {
	SAMPLE_IP = 1 << 0,
	SAMPLE_TID = 1 << 1,
	SAMPLE_TIME = 1 << 2,
	SAMPLE_ADDR = 1 << 3,
	SAMPLE_READ = 1 << 4,
	SAMPLE_CALLCHAIN = 1 << 5,
	SAMPLE_ID = 1 << 6,
	SAMPLE_CPU = 1 << 7,
	SAMPLE_PERIOD = 1 << 8,
	SAMPLE_STREAM_ID = 1 << 9,
	SAMPLE_RAW = 1 << 10,
	SAMPLE_BRANCH_STACK = 1 << 11,
	SAMPLE_REGS_USER = 1 << 12,
	SAMPLE_STACK_USER = 1 << 13,
	SAMPLE_WEIGHT = 1 << 14,
	SAMPLE_DATA_SRC = 1 << 15,
	SAMPLE_IDENTIFIER = 1 << 16,
	SAMPLE_TRANSACTION = 1 << 17,
	SAMPLE_REGS_INTR = 1 << 18,
	SAMPLE_PHYS_ADDR = 1 << 19,
	SAMPLE_AUX = 1 << 20,
	SAMPLE_CGROUP = 1 << 21,
	SAMPLE_DATA_PAGE_SIZE = 1 << 22,
	SAMPLE_CODE_PAGE_SIZE = 1 << 23,
	SAMPLE_WEIGHT_STRUCT = 1 << 24,
	SAMPLE_KNOWN = (1 << 25) - 1,
};

#endif /* LOCKLINE_PERF_SAMPLES_H */
