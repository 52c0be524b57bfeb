/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A thread beside the first one, which alone takes signals; a SIGBUS is of who causes it. */
#ifndef LOCKLINE_THREAD_H
#define LOCKLINE_THREAD_H

#include <pthread.h>
#include <signal.h>

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

#endif /* LOCKLINE_THREAD_H */
