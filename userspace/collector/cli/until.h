/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When a recording is to end (--until): conditions of one wait joined by `and`,
 * alternatives by `or`.
 *
 *	wait>400us and kind=spinlock or wait>5ms and lock~*mmap_lock or marker
 */
#ifndef LOCKLINE_UNTIL_H
#define LOCKLINE_UNTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#define UNTIL_ALTERNATIVES 8
#define UNTIL_PATTERN      128

/* All of it has to hold for one wait; marker: a line written to trace_marker, which is no wait. */
struct until_case {
	__u64 wait_ns; /* longer than this; 0: any that is over the threshold */
	__u32 kinds;   /* mask; 0: any */
	__u32 pid;     /* process or thread; 0: any */
	bool marker;
	char lock[UNTIL_PATTERN]; /* shell pattern, or a part of the name; "": any */
};

struct until {
	struct until_case cases[UNTIL_ALTERNATIVES];
	int count;
};

struct until_wait {
	__u64 wait_ns;
	__u32 kind;
	__u32 tid;
	__u32 tgid;
	const char *lock; /* its name */
};

/* 0, or -EINVAL with the reason in why (VALUE_WHY bytes). */
int until_parse(struct until *until, const char *text, char *why);
/* The alternative that this wait fulfils, counted from 1; 0: none. */
int until_matches(const struct until *until, const struct until_wait *wait);
bool until_has_marker(const struct until *until);
/* Whether a wait can fulfil it. */
bool until_has_wait(const struct until *until);
/* The shortest wait that may fulfil it; ~0 if none can. */
__u64 until_least_wait(const struct until *until);

#endif /* LOCKLINE_UNTIL_H */
