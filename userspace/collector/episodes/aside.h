/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parts of a recording that are kept aside while it goes on: --until with --save-last.  `lockline save` writes them. */
#ifndef LOCKLINE_ASIDE_H
#define LOCKLINE_ASIDE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/options.h"
#include "episodes/trigger.h"

struct aside {
	const struct options *options;
	char *program;   /* lockline, beside the collector */
	char *directory; /* of the recording */
	char *prefix;    /* of the names of its parts */
	bool wanted;     /* a part, as soon as interval is written */
	__s64 interval;  /* the one after the condition held */
	__u64 next_ns;   /* nothing is saved before */
	pid_t pid;       /* of lockline save; 0: none */
	int words;       /* what it prints; -1 */
	char file[NAME_MAX + 1];
	char why[sizeof(((struct trigger *)0)->why)];
};

/* aside: all zero but for words -1.  What is missing has been told.  Does nothing without --save-last. */
int aside_open(struct aside *aside, const struct options *options);
/* One that still runs is ended; it leaves nothing. */
void aside_close(struct aside *aside);
/*
 * The condition held in this interval.  Whether a part will be saved: once in the time of a part, so that parts do not
 * repeat each other.
 */
bool aside_want(struct aside *aside, const char *why, __s64 interval, __u64 now_ns);
/* Starts what is due, with the intervals before this one, and tells what has ended. */
void aside_tick(struct aside *aside, __s64 interval);

#endif /* LOCKLINE_ASIDE_H */
