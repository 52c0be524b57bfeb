/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits of known length on a lock that a system call holds while it copies from
 * user memory.  The holder's copy hits a page that is not there; userfaultfd
 * hands the fault to us, and the lock stays held until we serve it.
 */
#ifndef USERFAULT_H
#define USERFAULT_H

#include <linux/types.h>

#include "workload.h"

struct held_lock {
	/* The system call that takes the lock and copies from page. */
	void (*hold)(struct held_lock *lock, const void *page);
	/* The system call that waits for the lock, and its number. */
	void (*wait)(struct held_lock *lock);
	long wait_system_call;
	void (*after_round)(struct held_lock *lock); /* may be NULL */
	int fds[2];
	int waiter_cpu; /* -1: any */
};

/*
 * Serves commands ("go COUNT MICROSECONDS") until they end.  Each round prints
 * {"event": "waits", "waits": [[lower, upper], ...]} in ns: the wait cannot have
 * been shorter than the time from when the waiter was seen to sleep until the
 * fault was served, nor longer than the waiter's system call.
 *
 * "leave" leaves the waiter in its wait, until the next command or the end.
 * With COUNT MICROSECONDS in argv that one round is all.
 */
void run_held_lock(struct held_lock *lock, int argc, char **argv);

#endif /* USERFAULT_H */
