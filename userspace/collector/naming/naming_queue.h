/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names for addresses of processes, found by a thread of its own: who reads the
 * rings asks, goes on, and takes what has been found at the next round.
 * Nothing here waits but naming_queue_settle().
 */
#ifndef LOCKLINE_NAMING_QUEUE_H
#define LOCKLINE_NAMING_QUEUE_H

#include <stdbool.h>
#include <linux/types.h>

#include "naming/naming_client.h"

#define NAMED_MODULE 256

struct naming_queue;

/* What a name is for: the table's row of the recording. */
enum named_thing { NAMED_FRAME, NAMED_FUTEX };

struct naming_wish {
	enum named_thing thing;
	__u32 tgid;
	__u64 address;
	__s64 id; /* of NAMED_FUTEX */
};

struct named {
	struct naming_wish wish;
	__u64 offset;
	char name[NAMING_NAME];    /* "" if unknown */
	char module[NAMED_MODULE]; /* "" if unmapped or gone */
};

struct naming_queue_counts {
	struct naming_counts helper;
	__u64 dropped;    /* wishes that found the queue full, or that the recording's end left over */
	__u64 longest_ns; /* from a wish to its name, the longest */
};

int naming_queue_open(struct naming_queue **out, unsigned int max_processes);
void naming_queue_close(struct naming_queue *queue);

/* What the queue cannot take is counted, and keeps its address. */
void naming_queue_ask(struct naming_queue *queue, const struct naming_wish *wish);
/* Hands over all that has been found; stops at the first error of take(). */
int naming_queue_take(struct naming_queue *queue, int (*take)(void *context, const struct named *named), void *context);
/* At the end: hands over until nothing is left, or for so long; what is left then has no names. */
int naming_queue_settle(struct naming_queue *queue, __u64 most_ns,
			int (*take)(void *context, const struct named *named), void *context);
void naming_queue_counts(struct naming_queue *queue, struct naming_queue_counts *out);

#endif /* LOCKLINE_NAMING_QUEUE_H */
