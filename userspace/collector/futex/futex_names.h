/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a process tells of its futexes: which memory they lie in, and which threads it has. */
#ifndef LOCKLINE_FUTEX_NAMES_H
#define LOCKLINE_FUTEX_NAMES_H

#include <stdbool.h>
#include <linux/futex.h>
#include <linux/types.h>

#include "bpf/futex.h"

/* Where in a file a futex lies that processes share; inode 0: in no file. */
struct futex_place {
	__u64 inode;
	__u64 offset;
	__u32 major;
	__u32 minor;
};

static inline bool futex_event_is_pi(const struct futex_event *event)
{
	return FUTEX_PI_OPS >> event->op & 1;
}

/*
 * Whom the word, or glibc's mutex around it, calls its owner; 0: nobody.  A semaphore has none: behind its word glibc
 * keeps how it is shared, 128, which is some thread's number too.
 */
static inline __u32 futex_event_owner(const struct futex_event *event)
{
	if (event->flags & FUTEX_EVENT_SEM)
		return 0;
	return futex_event_is_pi(event) ? event->word & FUTEX_TID_MASK : event->owner;
}

/* The place of an address of the process; all 0 if it is not mapped, or the process is gone. */
void futex_place(__u32 tgid, __u64 address, struct futex_place *place);
/*
 * The host's id of a thread that the process itself calls tid; 0 if it has none of that id.  shared: the futex at address
 * may be another process's as well, so that a thread of any that maps the same memory will do.
 */
__u32 futex_thread(__u32 tgid, __u32 tid, __u64 address, bool shared);

#endif /* LOCKLINE_FUTEX_NAMES_H */
