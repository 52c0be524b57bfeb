/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the collector keeps of each futex, as long as it has a place for it: those used least recently make room. */
#ifndef LOCKLINE_FUTEXES_KNOWN_H
#define LOCKLINE_FUTEXES_KNOWN_H

#include <stdbool.h>
#include <stddef.h>

/* Without memory for its table, a futex has no place: that is no reason to end. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "bpf/futex.h"
#include "futex/futex_names.h"

struct futex_key {
	__u64 address;
	__u32 tgid;
	__u32 unused;
};

/* A futex, and what was found out about it besides the programs' figures. */
struct futex {
	__s64 id; /* in the recording */
	struct futex_key key;
	bool shared;
	bool named;    /* in the recording */
	bool unasked;  /* the queue had no room for the question after its name */
	bool placed;   /* in the table of places */
	char comm[16]; /* of its process, as the programs saw it; not ended by a 0 if it is full; "" if they did not */
	struct futex *same_as; /* the one that it is by another address */
	struct futex_place place;
	__u64 owner_samples;
	__u64 owners;              /* samples in which a live thread of the process held it */
	__u64 threads;             /* samples that waited for the word to change from a live thread's id */
	__u64 calls;               /* to wait and to wake, up to now */
	__u64 stored;              /* such calls when it was stored last */
	__u64 used;                /* the flush in which it was met last */
	__u32 uses;                /* by rows of the programs' table, and as same_as of others */
	__u32 first_row;           /* number + 1 of a row that it has; the others follow (futex_rows.c) */
	__u32 open_waits;          /* in progress */
	__u32 open_stored;         /* when it was stored last */
	__u64 open_ops;            /* of those in progress: mask of FUTEX_BIT() */
	__u64 oldest_ns, open_ns;  /* the age of the oldest of those, and of all of them */
	struct futex_row *retired; /* the figures of rows that were taken back; NULL: there were none */
	UT_hash_handle by_key, by_place;
};

#define FUTEX_KNOWN_BYTES (sizeof(struct futex) + sizeof(struct futex_row) + 2 * sizeof(struct UT_hash_bucket))

struct futexes_known {
	struct futex *by_key;   /* in the order in which they were met */
	struct futex *by_place; /* of those that processes share, the one that was met first */
	struct futex *unnamed;  /* the first one that is not in the recording yet, and all that follow it */
	__u32 most;
	__u64 flushes;
	__s64 next_id;
	struct futex nameless; /* all that found no place */
};

void futexes_known_open(struct futexes_known *known, __u32 most);
void futexes_known_close(struct futexes_known *known);
/* The futex at that address of the process; a new one has its place looked up, if processes share it. */
struct futex *futexes_meet(struct futexes_known *known, __u32 tgid, __u64 address, bool shared);
/* Whether places are getting few. */
bool futexes_scarce(const struct futexes_known *known);
/* Whether nothing refers to it any more, and its figures are final: once they are stored it may be forgotten. */
bool futex_is_left(const struct futex *futex);
/* After a flush: those that nothing refers to and that were not met for a while make room, if it is needed. */
int futexes_forget(struct futexes_known *known, int (*forgotten)(void *data, __s64 id), void *data);
/* The same between flushes. */
int futexes_make_room(struct futexes_known *known, int (*forgotten)(void *data, __s64 id), void *data);
/* Calls of rows that were taken back. */
__u64 futex_retired_calls(const struct futex *futex);
/* Adds the figures of a row. */
void futex_row_add(struct futex_row *sum, const struct futex_row *row);
/* The same, of a row that is taken back; false: no memory. */
bool futex_retire(struct futex *futex, const struct futex_row *row);

#endif /* LOCKLINE_FUTEXES_KNOWN_H */
