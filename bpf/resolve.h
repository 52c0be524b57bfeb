/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the resolver programs answer.  They are driven by BPF_PROG_TEST_RUN,
 * one at a time, to name a lock: never attached, never on a lock's path.
 */
#ifndef LOCKLINE_RESOLVE_H
#define LOCKLINE_RESOLVE_H

#ifndef __BPF__
#include <linux/types.h>
#endif

#define RESOLVE_BYTES 512

/* A slab cache, as far as an address tells its object. */
struct slab_cache {
	__u64 cache; /* address of the struct kmem_cache; 0: no slab object */
	__u32 size;  /* distance of two objects */
	__u32 object_size;
	__u32 order;     /* pages of a slab: 1 << order */
	__u32 min_order; /* the same where memory was short */
	__u32 red_left_pad;
	__s32 references; /* over 1: caches of other names were merged into it */
	char name[40];
};

struct resolve_result {
	__u64 rq;   /* struct rq of the CPU asked for; 0: not found */
	__u64 task; /* who asked */
	struct slab_cache slab;
	__s32 error; /* of the last read */
	__u32 pad;
	__u8 bytes[RESOLVE_BYTES];
};

_Static_assert(sizeof(struct slab_cache) == 72, "slab cache");
_Static_assert(sizeof(struct resolve_result) == 96 + RESOLVE_BYTES, "result");

#endif /* LOCKLINE_RESOLVE_H */
