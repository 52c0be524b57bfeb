/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From turns to holders: whose holds made others wait, and how fair a lock is.
 *
 * Turns come in order of time.  A wait is judged when it ends: between its
 * begin and its end lie the releases of its lock, and each of them ends a
 * hold; the time from the wait's begin, or from the release before, up to a
 * release was caused by the task that released.  What is left after the last
 * release is the hand-off.  All memory is bounded.
 */
#ifndef LOCKLINE_HOLDINGS_H
#define LOCKLINE_HOLDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/lockline.h"

struct holdings;

/* A task that released or owned a lock. */
struct holder {
	__u32 tid;
	__u32 tgid;
	char comm[17]; /* "": known by an owner field alone */
	__s64 id;      /* in the recording, set by the caller of holdings_changed() */
};

/* Readers that owned an rwsem when a wait began: which of them is not known. */
#define HOLDER_READERS 1
/* Not known: the lock does not tell, or there was no room to tell holders apart. */
#define HOLDER_UNKNOWN 0

/* What a holder caused, for one lock and kind of wait; stack 0: from all places together. */
struct caused {
	__u64 lock;
	__u32 kind;
	__u32 holder;
	__s64 stack;
	__u64 releases; /* contended ones; those that the samples of this stack stand for */
	__u64 samples;  /* of this stack */
	__u64 waits;
	__u64 ns;
	__u64 max_ns;
};

struct fairness {
	__u64 lock;
	__u32 kind;
	__u64 waits; /* judged */
	__u64 wait_ns;
	__u64 releases; /* of the lock, for all kinds of waits */
	__u64 retakes;  /* releases after which the same task had it again, ahead of all that waited */
	__u64 overtaken;
	__u64 bypasses;
	__u64 max_bypasses;
	__u64 handoffs;
	__u64 handoff_ns;
	__u64 max_handoff_ns;
};

struct holdings_losses {
	__u64 incomplete;    /* waits that began before what is remembered of their lock's releases */
	__u64 without_place; /* turns of locks, or holders, for which there was no room */
};

/* locks, cells: how many locks, and how many (lock, kind, holder, stack) are kept apart. */
int holdings_open(struct holdings **out, size_t locks, size_t cells);
void holdings_close(struct holdings *holdings);

/* A contended release; stack: id of the stack taken, 0: none.  time_ns is not before that of the turn before. */
void holdings_release(struct holdings *holdings, const struct holding_record *holding, __s64 stack);
/* The end of a wait. */
void holdings_wait(struct holdings *holdings, const struct holding_record *holding);

struct holder *holdings_holder(struct holdings *holdings, __u32 holder);
const struct holdings_losses *holdings_losses(const struct holdings *holdings);
size_t holdings_bytes(const struct holdings *holdings);

/* Visits what changed since the last call; stops at the first error. */
int holdings_changed(struct holdings *holdings, int (*visit_caused)(const struct caused *caused, void *data),
		     int (*visit_fairness)(const struct fairness *fairness, void *data), void *data);

#endif /* LOCKLINE_HOLDINGS_H */
