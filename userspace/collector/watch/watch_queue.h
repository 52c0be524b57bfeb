/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Windows that wait to be looked at, in bounded memory. */
#ifndef LOCKLINE_WATCH_QUEUE_H
#define LOCKLINE_WATCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/watch.h"

/* Bytes of windows that wait; hits beyond are lost, and counted. */
#define WATCH_WAITING_MOST (24u << 20)

struct watch_window {
	struct watch_window *next;
	__u32 line;     /* number of its place */
	__u32 places;   /* mask of the eighths */
	bool typed;     /* two watchpoints at each: records have WATCH_WROTE or WATCH_ONLY_READ */
	bool goes_on;   /* nothing lies between the window before and this one */
	bool cut;       /* some watchpoint reached its limit of hits */
	__u64 begin_ns; /* from when on all CPUs were watched */
	__u64 end_ns;
	__u64 hits; /* in the kernel, those just outside of begin and end left out */
	__u64 lost; /* of these, without a record */
	__u64 record_count;
	struct watch_record records[]; /* by CPU, not in order of time */
};

struct watch_queue {
	struct watch_window *first;
	struct watch_window *newest; /* of those from first on */
	size_t bytes;
};

/* Whether a window of so many records would find room. */
bool watch_queue_has_room(const struct watch_queue *queue, __u64 records);
/* A window with room for so many; NULL: no memory. */
struct watch_window *watch_window_new(const struct watch_window *seen, __u64 records);
/* Of `count` records those between begin and end, in no more memory than these want. */
struct watch_window *watch_window_fit(struct watch_window *window, __u64 count);
/* The window is the queue's then. */
void watch_queue_put(struct watch_queue *queue, struct watch_window *window);
/* All of them, in order; to be freed one by one. */
struct watch_window *watch_queue_take(struct watch_queue *queue);

#endif /* LOCKLINE_WATCH_QUEUE_H */
