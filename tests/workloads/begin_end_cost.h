/* SPDX-License-Identifier: GPL-2.0 */
#ifndef BEGIN_END_COST_H
#define BEGIN_END_COST_H

/* LCB_F_SPIN: include/trace/events/lock.h. */
#define LEAST_SPINS 1
/* Powers of two: rows of each CPU, CPUs with rows of their own, and slots of CPUs and threads. */
#define LEAST_ROW_BITS 11
#define LEAST_CPUS 16
#define LEAST_ROWS (LEAST_CPUS << LEAST_ROW_BITS)
#define LEAST_SLOTS 4096

struct least_row {
	unsigned long long lock;
	unsigned long long waits;
	unsigned long long ns;
	unsigned long long longest_ns;
	unsigned long long rest[4];
};

#endif
