/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Samples of one instruction at one offset of a line: how many of each kind, by which threads, on which CPUs. */
#ifndef LOCKLINE_MEMORY_ACCESS_H
#define LOCKLINE_MEMORY_ACCESS_H

#include <stdbool.h>
#include <linux/types.h>

#include "base/hash_index.h"

#define MEMORY_CPUS   8192 /* the largest NR_CPUS of x86 and arm64 */
#define MEMORY_NO_CPU 0xffff
#define MEMORY_KINDS  4 /* so many are looked at without a branch */

/* Samples of one kind. */
struct memory_kind_sum {
	__u32 kind;
	__u32 count;
	__u64 weight;
};

/* Samples of one thread. */
struct memory_share {
	__u32 thread;
	__u32 records; /* 0: the place is free */
};

/*
 * All kinds, threads and CPUs, as soon as one of them is not that of the first
 * sample.  Threads are in a table by hash, or each has a place of its own in a
 * list where that takes no more room: 2 bytes, where the table has 11 to 21.
 */
struct memory_more {
	struct memory_kind_sum *kinds;
	struct memory_share *shares; /* open addressing; NULL: they are listed */
	__u16 *listed;               /* samples by thread; NULL: they are in the table */
	__u8 *cpus;                  /* a bit set; NULL: none but the first sample's */
	__u32 kind_count;
	__u32 kind_capacity;
	__u32 share_count;
	__u32 share_bits;
	__u32 listed_size; /* threads */
	__u32 cpu_bytes;
	struct memory_kind_sum first_kinds[MEMORY_KINDS];
	struct memory_share first_shares[4];
};

struct memory_access {
	__u32 line;
	__u32 code;
	__u16 offset;
	__u16 cpu; /* of the first sample; MEMORY_NO_CPU: not known */
	/* Of the first sample, and of those like it until there is more. */
	__u32 thread;
	__u32 kind;
	__u32 count;
	__u64 weight;
	__u64 page; /* physical, of the last sample that has one and is in the line's pages; 0: none */
	struct memory_more *more;
};

/* Whether no sample more can be counted: another access of the same key has to take it. */
static inline bool memory_access_full(const struct memory_access *access)
{
	return access->count == ~0u;
}

/*
 * One sample more, where there is a place for its kind, its thread and its CPU,
 * as there is for nearly all; false: memory_access_add() has to make one, and
 * nothing has changed.
 */
bool memory_access_count(struct memory_access *access, __u32 kind, __u32 thread, __u16 cpu, __u64 weight);
/* One sample more, with the sample's own values.  -ENOSPC: not within the budget, and nothing has changed. */
int memory_access_add(struct memory_access *access, const struct memory_access *sample, struct memory_budget *budget);
/* What memory_access_add() will look at is fetched from memory: what there is more, then what that points to. */
void memory_access_fetch(const struct memory_access *access);
void memory_access_fetch_more(const struct memory_access *access, __u32 thread, __u32 cpu);
/* How many threads have a part in it. */
__u32 memory_access_threads(const struct memory_access *access);
/* Whether samples of it are of several CPUs. */
bool memory_access_has_cpus(const struct memory_access *access);
/* Its threads, each with its samples, sorted; out has room for all. */
void memory_access_shares(const struct memory_access *access, struct memory_share *out);
/* Sets the byte of each of its threads. */
void memory_access_mark(const struct memory_access *access, __u8 *threads);
/* A copy of its own; -ENOMEM. */
int memory_access_copy(struct memory_access *out, const struct memory_access *access);
void memory_access_free(struct memory_access *access);

#endif /* LOCKLINE_MEMORY_ACCESS_H */
