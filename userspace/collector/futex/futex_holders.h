/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the holders of contended mutexes do: looked at from time to time, by /proc.
 *
 * A look is of the moment, so that the looks at a mutex are to each other as the times that its holders spend: one
 * that is held over a write to disk is seen in that call.
 */
#ifndef LOCKLINE_FUTEX_HOLDERS_H
#define LOCKLINE_FUTEX_HOLDERS_H

#include <stdbool.h>
#include <linux/types.h>

#include "recording/recording.h"

/* Mutexes that are looked at in turn, and for how long after a sample of a wait for one. */
#define HELD_MUTEXES 4
#define HELD_FOR_NS  500000000ull

struct held_mutex {
	__s64 futex; /* in the recording; 0: none */
	__u64 address;
	__u64 seen_ns;
	__u32 tgid;
	__u32 looks; /* at it, ever */
	bool pi;
	bool shared; /* processes may share it: its holder may be of another one */
};

struct futex_holders {
	struct held_mutex mutexes[HELD_MUTEXES];
	__u32 turn;
};

/* A sampled wait was for this mutex, and it had an owner. */
void futex_holders_meet(struct futex_holders *holders, const struct held_mutex *mutex);
/* Looks at each of them that has waiters, once, or where enough is known at every fourth call. */
int futex_holders_look(struct futex_holders *holders, struct recording *recording, __u64 now_ns);
/* futex is no longer in the recording's table. */
void futex_holders_forget(struct futex_holders *holders, __s64 futex);

/* What a line of /proc/PID/task/TID/syscall says: a call's name, "page fault", "" if it does not. */
const char *futex_holder_call(const char *line);

#endif /* LOCKLINE_FUTEX_HOLDERS_H */
