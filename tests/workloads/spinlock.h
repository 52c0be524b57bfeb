/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef SPINLOCK_H
#define SPINLOCK_H

#define MOST_RUNS 16384

/* One run of the program, from before the lock to after the unlock; CLOCK_MONOTONIC. */
struct run {
	__u64 begin_ns;
	__u64 end_ns;
};

/* Of one CPU, and written by that CPU's thread alone. */
struct runs {
	__u64 count;
	__u64 pad[7];
	struct run run[MOST_RUNS];
};

#endif /* SPINLOCK_H */
