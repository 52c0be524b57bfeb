/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which threads of a JVM wait for a monitor now, for which, and who owns it.
 *
 * A look is of the moment: looks are to each other as the times that threads wait.
 */
#ifndef LOCKLINE_HOTSPOT_MONITORS_H
#define LOCKLINE_HOTSPOT_MONITORS_H

#include "hotspot/hotspot_layout.h"

#define HOTSPOT_MONITORS      4   /* that one look tells of */
#define HOTSPOT_LOOKED        512 /* threads that one look is at; of more, in turn */
#define HOTSPOT_WAITERS       64  /* of those that wait, so many are told; of more, in turn */
#define HOTSPOT_THREADS       512 /* among which the owner is looked for */
#define HOTSPOT_KNOWN_THREADS 256
#define HOTSPOT_KNOWN_NAMES   32
#define HOTSPOT_CLASS         192
#define HOTSPOT_THREAD        96

struct hotspot_monitor {
	__u64 address;             /* of the ObjectMonitor; its object moves */
	__u32 waiting;             /* of the threads that were looked at */
	__u32 owner;               /* thread id, as that process sees it; 0: not known */
	char class[HOTSPOT_CLASS]; /* of the object; "": it cannot be read */
	char owner_name[HOTSPOT_THREAD];
};

struct hotspot_monitors {
	__u32 threads; /* that the JVM has */
	__u32 looked_at;
	__u32 count;
	__u32 untold; /* threads that wait for further monitors */
	__u32 waiters;
	__u32 cursor; /* the thread to look at first, the next time */
	struct hotspot_monitor list[HOTSPOT_MONITORS];
	struct {
		__u32 monitor; /* its place in the list */
		__u32 tid;     /* 0: not known */
	} waiter[HOTSPOT_WAITERS];
};

/* What earlier looks found, which is believed for a while; all 0 at first. */
struct hotspot_known {
	struct {
		__u64 at, ns; /* the thread, and when it was read */
		__u32 tid;
	} threads[HOTSPOT_KNOWN_THREADS];
	struct {
		__u64 at, owner, ns; /* owner: what the monitor had in that place */
		char name[HOTSPOT_THREAD];
	} names[HOTSPOT_KNOWN_NAMES];
	struct {
		__u64 address, ns;
		char class[HOTSPOT_CLASS];
	} monitors[HOTSPOT_KNOWN_NAMES];
};

/* cursor: of the look before, 0 at first.  -ENODATA: this version's tables do not tell. */
int hotspot_monitors_read(const struct hotspot_layout *layout, struct target_memory *memory,
			  struct hotspot_known *known, __u64 now_ns, __u32 cursor, struct hotspot_monitors *out);

#endif /* LOCKLINE_HOTSPOT_MONITORS_H */
