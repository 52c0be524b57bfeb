/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract of the filters by lock and by caller (record -L, -S) between the BPF programs and user space.
 *
 * What has an address beforehand is a range of addresses.  What has only a name is asked for: the first wait for a
 * lock writes a question, the collector names the lock and writes its verdict.
 */
#ifndef LOCK_FILTER_H
#define LOCK_FILTER_H

#include "bpf/lockline.h"

#define LOCK_RANGES   16   /* addresses and variables of -L */
#define CALLER_RANGES 1024 /* functions of -S; a power of two */

/* Verdicts: open addressing by lock, one word each; 0: free. */
#define VERDICT_SLOTS  16384
#define VERDICT_PROBES 8

enum verdict {
	VERDICT_NONE,
	VERDICT_ASKED, /* the collector has not answered yet */
	VERDICT_WANTED,
	VERDICT_UNWANTED,
};

struct address_range {
	__u64 begin;
	__u64 end;
};

/* Questions of a CPU, in a ring.  Tokens are fewer, so that none is overwritten before it is read. */
#define QUESTIONS       16
#define QUESTION_TOKENS 12

struct lock_question {
	__u64 sequence; /* as in struct wait_event */
	__u64 lock;
	__u32 kind;
	__s32 kernel_frames;
	__u64 kernel[STACK_FRAMES];
	struct wait_row row; /* of its fields the owner's alone: what find_owner() found */
};

/* One per CPU, written by it alone but for tokens. */
struct question_state {
	__u64 asked; /* ever begun in this CPU's ring */
	__u32 tokens;
	__u32 pad[13];
};

/* A kernel address has its upper bits set: there is room for the verdict below. */
static inline __u64 verdict_word(__u64 lock, enum verdict verdict)
{
	return lock << 8 | verdict;
}

static inline __u32 verdict_slot(__u64 lock, __u32 probe)
{
	return (lock_hash(lock, VERDICT_SLOTS) + probe) & (VERDICT_SLOTS - 1);
}

_Static_assert(sizeof(struct question_state) == CACHE_LINE, "CPUs share no line");

#endif /* LOCK_FILTER_H */
