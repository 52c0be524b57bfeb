/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the rings hold of a stretch of time: relief records, and with --holders the turns of one lock. */
#ifndef LOCKLINE_TIMELINE_H
#define LOCKLINE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "holders/holders.h"
#include "probes/maps.h"

/* Rows of one episode; more are left out from its middle. */
#define TIMELINE_ROWS 4096
/* On so few CPUs all of them are of interest. */
#define TIMELINE_ALL_CPUS 4

enum timeline_type {
	TIMELINE_INTERRUPT,
	TIMELINE_VECTOR,
	TIMELINE_IPI,
	TIMELINE_IPI_SENT,
	TIMELINE_SOFTIRQ,
	TIMELINE_SWITCH,
	TIMELINE_WAKING,
	TIMELINE_WAKEUP,
	TIMELINE_WAIT_TASK,
	TIMELINE_RELEASE,
	TIMELINE_ACQUIRED,
	TIMELINE_TYPES
};

extern const char *const timeline_type_names[TIMELINE_TYPES]; /* as in recording.sql */

struct timeline_row {
	__u64 time_ns;
	__u64 length_ns;
	__u64 sequence;
	__s64 stack; /* id in the recording */
	__u32 cpu;
	__u32 tid;
	__u32 other_tid;
	__u32 value;
	enum timeline_type type;
	bool throttled; /* who was switched out, or woken, could run and may not */
	char comm[17];  /* "": not known */
	char name[33];  /* of the interrupt; CPUs sent to, if they are several; or the other task's comm */
};

/* What to look for. */
struct timeline_window {
	__u64 from_ns;
	__u64 to_ns;
	__u64 lock; /* whose turns; 0: none */
	__u32 tid;  /* the waiter: CPUs that dealt with it are of interest; 0: all CPUs are */
	__u32 holder;
	__u32 cpu;
	__u32 begin_cpu;
};

struct timeline {
	struct timeline_row *rows; /* by time */
	size_t count;
	size_t room;
	bool complete; /* nothing of that time was overwritten or torn */
	__u64 left_out;
	unsigned char *cpus; /* bit set of those whose records are in it */
	size_t cpu_bytes;
};

/* holders: NULL without --holders.  Reads, and takes nothing away. */
int timeline_read(struct timeline *timeline, const struct maps *maps, const struct holders *holders,
		  const struct timeline_window *window);
/*
 * Who has a lock that was waited for since begin_ns (--holders): the last one to get it after waiting, if nobody let go
 * of it since; 0: not known.  While somebody waits every release is recorded; who takes it without waiting is not.
 */
__u32 timeline_taker(const struct maps *maps, __u64 lock, __u64 begin_ns);
void timeline_free(struct timeline *timeline);

#endif /* LOCKLINE_TIMELINE_H */
