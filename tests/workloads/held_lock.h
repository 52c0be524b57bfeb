/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef HELD_LOCK_H
#define HELD_LOCK_H

#define MOST_HOLDS 4096

/* One hold, as the program that made it saw it; CLOCK_MONOTONIC. */
struct hold {
	__u64 begin_ns;
	__u64 all_going_ns; /* all waiters had said that they go for the lock; 0: they did not in time */
	__u64 end_ns;
	__u64 interrupted_ns; /* --by-interrupt: the interrupt that ended it was entered */
};

#endif /* HELD_LOCK_H */
