/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a ring that the programs of one CPU write and overwrite.
 *
 * The CPU counts the records that it has begun.  A record's sequence is 0 while
 * it is written, and its position + 1 when it is whole.  A reader never stops
 * the writer: it copies a record and looks at the sequence before and after.
 *
 * A reader that cannot go on for a while puts what comes aside, in memory.  What is put aside is read first.
 */
#ifndef LOCKLINE_RING_H
#define LOCKLINE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

/* What bounds the memory of all records that are put aside, of all rings together. */
#define RING_ASIDE_BYTES (16ull << 20)

/* Records that were copied out of a ring, to be read later; all zeroes: none. */
struct ring_aside {
	char *records;
	__u32 first, count, room; /* records: the next one to read, those there, and what fits */
	__u32 bytes;              /* of a record */
	__u64 position;           /* where the ring goes on after them */
};

struct ring {
	const void *records;      /* of this CPU */
	const __u64 *written;     /* records begun, ever */
	__u32 count;              /* records that it holds; a power of two */
	__u32 bytes;              /* of a record */
	__u32 sequence;           /* where in a record its sequence is */
	struct ring_aside *aside; /* NULL: this reader never puts anything aside */
};

struct ring_losses {
	__u64 overwritten; /* before they were read */
	__u64 torn;        /* while they were read */
};

enum ring_found {
	RING_COPIED,
	RING_PENDING,     /* being written, for the first time or over an older one */
	RING_TORN,        /* it was written while it was copied */
	RING_OVERWRITTEN, /* a later record stands there */
	RING_END,         /* there is none left */
};

/* From one record to the next, or to the one before. */
struct ring_pass {
	const struct ring *ring;
	__u64 position; /* of the next record; going back: of the last one */
	__u64 end;
};

/* Copies the record at that position, to ring->bytes at out; what is there is valid after RING_COPIED alone. */
enum ring_found ring_copy(const struct ring *ring, __u64 position, void *out);

/*
 * Forward from position, up to what is written by now.  Records that the ring no
 * longer holds are counted as overwritten and passed over.
 */
void ring_begin(struct ring_pass *pass, const struct ring *ring, __u64 position, struct ring_losses *losses);
/*
 * The next whole record; it was at pass->position - 1.  Those that are lost on the
 * way are counted.  False: no more for now.  Then pass->position is where to begin
 * the next time: a record that is still being written waits for that.
 */
bool ring_next(struct ring_pass *pass, void *out, struct ring_losses *losses);

/*
 * Copies what the ring holds from *position on, or after what is aside already; ring_begin() at *position reads that
 * first.  What finds no memory stays in the ring, and is lost if it is overwritten there.
 */
void ring_put_aside(const struct ring *ring, __u64 *position, struct ring_losses *losses);
/* Whether something found no memory since the last call. */
bool ring_aside_was_full(void);
static inline bool ring_has_aside(const struct ring_aside *aside)
{
	return aside->count;
}

/* An array of them, with what they hold; may be NULL. */
void ring_free_asides(struct ring_aside *asides, __u32 count);

/* Backward from the latest record; nothing is counted. */
void ring_begin_back(struct ring_pass *pass, const struct ring *ring);
/* The one before, at pass->position; after RING_OVERWRITTEN all earlier ones are gone too. */
enum ring_found ring_previous(struct ring_pass *pass, void *out);
/* Whether earlier records have been overwritten, as of ring_begin_back(). */
static inline bool ring_has_lost(const struct ring_pass *pass)
{
	return pass->end;
}

static inline __u64 ring_written(const struct ring *ring)
{
	return __atomic_load_n(ring->written, __ATOMIC_ACQUIRE);
}

#endif /* LOCKLINE_RING_H */
