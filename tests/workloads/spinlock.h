/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef SPINLOCK_H
#define SPINLOCK_H

/* One per CPU that runs the program; written by that CPU's thread alone. */
struct runs {
	__u64 runs;
	__u64 elapsed_ns; /* from before the lock to after the unlock */
	__u64 shortest_ns;
	__u64 pad[5];
};

#endif /* SPINLOCK_H */
