// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>

#include "watch/watch_queue.h"

static size_t window_bytes(__u64 records)
{
	return sizeof(struct watch_window) + records * sizeof(struct watch_record);
}

bool watch_queue_has_room(const struct watch_queue *queue, __u64 records)
{
	return queue->bytes + window_bytes(records) <= WATCH_WAITING_MOST;
}

struct watch_window *watch_window_new(const struct watch_window *seen, __u64 records)
{
	struct watch_window *window = malloc(window_bytes(records));

	if (window)
		*window = *seen;
	return window;
}

/* Before the last CPU was watched, and after the first one was not, is in no window. */
struct watch_window *watch_window_fit(struct watch_window *window, __u64 count)
{
	struct watch_window *smaller;
	__u64 kept = 0;

	for (__u64 i = 0; i < count; i++)
		if (window->records[i].ns >= window->begin_ns && window->records[i].ns < window->end_ns)
			window->records[kept++] = window->records[i];
	window->record_count = kept;
	smaller = realloc(window, window_bytes(kept));
	return smaller ?: window;
}

/* One without records that only prolongs the one before, which nobody has taken yet, is added to that. */
void watch_queue_put(struct watch_queue *queue, struct watch_window *window)
{
	struct watch_window *newest = queue->first ? queue->newest : NULL;

	window->next = NULL;
	if (newest && window->goes_on && !window->record_count && newest->line == window->line &&
	    newest->places == window->places) {
		newest->end_ns = window->end_ns;
		newest->hits += window->hits;
		newest->lost += window->lost;
		newest->cut |= window->cut;
		free(window);
		return;
	}
	queue->bytes += window_bytes(window->record_count);
	if (newest)
		newest->next = window;
	else
		queue->first = window;
	queue->newest = window;
}

struct watch_window *watch_queue_take(struct watch_queue *queue)
{
	struct watch_window *first = queue->first;

	*queue = (struct watch_queue){};
	return first;
}
