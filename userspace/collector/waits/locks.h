/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The locks met so far: address -> id in the recording, name, totals by kind. */
#ifndef LOCKLINE_LOCKS_H
#define LOCKLINE_LOCKS_H

#include <stdbool.h>
#include <linux/types.h>

#include "names/lock_names.h"
#include "recording/recording.h"
#include "waits/last_read.h"

/* Row of the recording for waits whose lock found no row or no place here. */
#define OTHER_LOCK 1

struct known_lock {
	__u64 address;
	__u32 id;
	__u8 source;         /* enum name_source */
	__u8 tries;          /* at a better name */
	bool unsure, called; /* of the name: as in lock_name */
	__u32 type_offset;   /* of the lock in the object that holds it */
	const char *type;    /* of that; "" if it is not known */
	__u32 rows;          /* of the tables that are bound to it */
	__u64 used;          /* the flush in which it was met, or waited for, last */
	bool gone;           /* its address is another lock's by now */
	bool doubted;        /* there was no turn to ask whether it is: see locks_reused() */
	__u64 asked;         /* the flush in which that was asked last */
	__u32 task;          /* the thread or process that its name tells; 0: none */
	struct lock_identity identity;
	struct lock_total *totals;
};

struct locks;

/* limit: (lock, kind) pairs with totals of their own. */
int locks_open(struct locks **out, struct recording *recording, struct lock_names *names, __u32 limit);
void locks_close(struct locks *locks);

/* NULL if the address was not met. */
struct known_lock *locks_find(struct locks *locks, __u64 address);
/* Names and stores the lock if it is new or still without a good name; NULL with *err 0: no place left. */
struct known_lock *locks_meet(struct locks *locks, const struct lock_hint *hint, int *err);
/* NULL: no place left, or no memory. */
struct lock_total *locks_total(struct locks *locks, struct known_lock *lock, __u32 kind);
/* Totals of the waits without a lock of their own. */
struct lock_total *locks_other(struct locks *locks, __u32 kind);
/*
 * Whether the lock of a row is another one by now, as its address was used
 * again: then it is gone, and locks_meet() makes a new one.  The kernel is asked
 * only if the row was idle, or if the task that the lock's name tells has ended,
 * or if there was no turn to ask before.
 */
bool locks_reused(struct locks *locks, struct known_lock *lock, bool was_idle, int *err);
/* There were waits for it in this flush. */
void locks_used(struct locks *locks, struct lock_total *total);
struct reused_counts {
	__u64 found;
	__u64 not_looked_at; /* there were too many at once */
};
const struct reused_counts *locks_reused_counts(const struct locks *locks);
/* A row of the tables is bound to this total from now on; or no longer. */
void locks_bind(struct locks *locks, struct lock_total *total);
void locks_release(struct lock_total *total);
/* Whether names are scarce: idle rows should be taken back for the sake of theirs. */
bool locks_scarce(const struct locks *locks);
/* After locks_changed(): forgets locks that have no row and were not met for a while, if names are scarce. */
int locks_forget(struct locks *locks);
__u64 locks_without_place(const struct locks *locks);
/* Calls visit for each total that changed since the last call, and marks it unchanged. */
int locks_changed(struct locks *locks, int (*visit)(const struct lock_total *total, void *data), void *data);

#endif /* LOCKLINE_LOCKS_H */
