/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the planted causes of incidents.c and incidents_*.c share. */
#ifndef INCIDENTS_H
#define INCIDENTS_H

#include <stdbool.h>

/*
 * prepare: once, before any thread; it may be NULL.  round: what each thread does over and over; thread: from 0 on.
 */
struct incident {
	const char *name;
	void (*round)(long thread);
	void (*prepare)(long threads);
};

/*
 * Loads that meet in the kernel, on a CPU, among processes, at a holder, at an owner, at queues, in servers, and of all
 * kinds: ended by no name.
 */
extern const struct incident kernel_incidents[], spin_incidents[], process_incidents[], holder_incidents[];
extern const struct incident owner_incidents[], queue_incidents[], server_incidents[], mixed_incidents[];

/* Runs on a CPU for so long. */
void spin_us(long us);

/* Sleeps for so long, at most a second. */
void sleep_us(long us);

/* Ends the program with errno's words, unless ok. */
void must(bool ok, const char *what);

/* A process in the thread's place, that does this for ever. */
void as_process(long thread, void (*round)(long thread));

#endif /* INCIDENTS_H */
