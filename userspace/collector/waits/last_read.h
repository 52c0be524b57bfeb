/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the collector keeps of each row and of each lock. */
#ifndef LOCKLINE_LAST_READ_H
#define LOCKLINE_LAST_READ_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/lockline.h"

/* Figures of a row, a lock or a CPU over the whole run. */
struct figures {
	__u64 waits;
	__u64 wait_ns;
	__u64 max_ns;
	__u64 failed;
	__u64 histogram[HISTOGRAM_BUCKETS];
};

/* One (lock, kind). */
struct lock_total {
	__u32 lock; /* id in the recording */
	__u32 kind;
	__u32 worst_cpu;
	bool changed; /* since the last flush */
	__u64 worst_cpu_ns;
	struct lock_total *next; /* of the same lock */
	struct known_lock *of;   /* NULL: of the locks without a row */
	struct figures figures;
};

/* How far the collector is with taking a row back. */
enum row_age {
	ROW_LIVE,
	ROW_MARKED, /* no program finds it any more; some may still use it */
	ROW_QUIET,  /* none will use it any more; what they wrote may still be on its way */
};

/* A row as it was read last; differences to the map are what an interval added. */
struct row_last_read {
	struct lock_total *total; /* NULL: not met yet */
	__u64 key;                /* unless it is live: what the row was for */
	__u64 waits;
	__u64 wait_ns;
	__u64 max_ns;
	__u32 failed;
	__u8 age;     /* enum row_age */
	__u8 idle;    /* flushes that found nothing new, up to IDLE_FLUSHES */
	bool reused;  /* its lock is another one than the row was claimed for */
	bool wrapped; /* some bucket passed 2^32: see struct wrap in totals.c */
	__u32 histogram[HISTOGRAM_BUCKETS];
};

#endif /* LOCKLINE_LAST_READ_H */
