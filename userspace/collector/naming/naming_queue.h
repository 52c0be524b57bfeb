/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names for addresses of processes, and frames of their stacks, found by a thread of its own: who reads the
 * rings asks, goes on, and takes what has been found at the next round.
 * Nothing here waits but naming_queue_settle().
 */
#ifndef LOCKLINE_NAMING_QUEUE_H
#define LOCKLINE_NAMING_QUEUE_H

#include <stdbool.h>
#include <linux/types.h>

#include "naming/naming_client.h"
#include "naming/user_unwind.h"

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

/* A sample whose stack is to be unwound, with what is recorded of it. */
struct naming_sample {
	struct user_stack stack;
	__u64 frames[NAMING_FRAMES]; /* those that the kernel found; the stack's own, if it tells more */
	int count;
	bool wake;
	__s64 futex, task;
	__u64 waits, wait_ns;
};

/* Takes what has been found; each returns 0 or a negative errno, which ends the taking. */
struct naming_taker {
	int (*name)(void *context, const struct named *named);
	int (*sample)(void *context, const struct naming_sample *sample);
	int (*look)(void *context, const struct monitor_look *look);
	void *context;
};

struct naming_queue_counts {
	struct naming_counts helper;
	__u64 dropped;     /* wishes that found the queue full, or that the recording's end left over */
	__u64 longest_ns;  /* from a wish to its name, the longest */
	__u64 not_unwound; /* samples that found the queue full, or that the recording's end left over */
};

/* Of samples' stacks. */
struct naming_pace {
	__u64 cpu_ns; /* that the thread and its helper took for those that are done */
	__u32 waiting;
	__u32 most_waiting; /* 0: there is no room for any, and they are stored as they come */
};

int naming_queue_open(struct naming_queue **out, unsigned int max_processes);
void naming_queue_close(struct naming_queue *queue);

/* False: the queue cannot take it, which is counted.  What has no name now and may have one is asked again by itself. */
bool naming_queue_ask(struct naming_queue *queue, const struct naming_wish *wish);
/* The same of one that the queue could not take: it is counted no longer, if it can now. */
bool naming_queue_ask_again(struct naming_queue *queue, const struct naming_wish *wish);
/* Where the next sample is to be written; NULL: the queue cannot take it, which is counted. */
struct naming_sample *naming_queue_place(struct naming_queue *queue);
/* It is written there. */
void naming_queue_unwind(struct naming_queue *queue);
/* Hands over all that has been found, stops at the taker's first error; has the thread begin with what was asked. */
int naming_queue_take(struct naming_queue *queue, const struct naming_taker *taker);
/*
 * At the end: hands over until nothing is left, or for so long; what is left then has no names, and samples
 * have the frames that they had.
 */
int naming_queue_settle(struct naming_queue *queue, __u64 most_ns, const struct naming_taker *taker);
void naming_queue_counts(struct naming_queue *queue, struct naming_queue_counts *out);
void naming_queue_pace(struct naming_queue *queue, struct naming_pace *out);

#endif /* LOCKLINE_NAMING_QUEUE_H */
