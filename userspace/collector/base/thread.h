/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads beside the first one, which alone takes signals; a SIGBUS is of who causes it. */
#ifndef LOCKLINE_THREAD_H
#define LOCKLINE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "base/clock.h"

/* 0, or a negative errno. */
static inline int thread_start(pthread_t *thread, void *(*work)(void *), void *argument)
{
	sigset_t others, before;
	int err;

	sigfillset(&others);
	sigdelset(&others, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	err = -pthread_create(thread, NULL, work, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* False: it is that late, by CLOCK_MONOTONIC. */
static inline bool thread_wait_until(pthread_cond_t *changed, pthread_mutex_t *lock, __u64 until_ns)
{
	const struct timespec until = timespec_of(until_ns);

	return !pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &until);
}

#endif /* LOCKLINE_THREAD_H */
