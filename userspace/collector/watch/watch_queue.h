/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Windows that wait to be looked at, in bounded memory. */
#ifndef LOCKLINE_WATCH_QUEUE_H
#define LOCKLINE_WATCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "watch/watch_windows.h"

/* Bytes of windows that wait; hits beyond are lost, and counted. */
#define WATCH_WAITING_MOST (24u << 20)

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
