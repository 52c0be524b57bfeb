/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looks at what threads sleep in: waits that pass no tracepoint of locks, as for a lock on a file, a semaphore of
 * System V or a lock of a program, are seen nowhere else in a plain recording.
 *
 * A look reads /proc/PID/task/TID/wchan of MOST_THREADS threads at most.  The time between looks grows with the
 * recording, so that a day has a hundred of them.
 */
#ifndef LOCKLINE_SLEEPS_H
#define LOCKLINE_SLEEPS_H

#include <linux/types.h>

#include "cli/options.h"

struct probes;
struct recording;
struct sleeps;

/* probes: which processes are followed, unless options->all. */
int sleeps_open(struct sleeps **out, const struct options *options, const struct probes *probes,
		struct recording *recording);
/* CPU time of the chosen processes until now is not of the recording. */
void sleeps_begin(struct sleeps *sleeps, __u64 now_ns);
/* Looks if it is time, or if this is the last moment. */
void sleeps_look(struct sleeps *sleeps, __u64 now_ns, bool last);
/* Writes what was seen so far, if there was a look since. */
int sleeps_flush(struct sleeps *sleeps);
void sleeps_close(struct sleeps *sleeps);

#endif /* LOCKLINE_SLEEPS_H */
