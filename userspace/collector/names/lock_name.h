/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of a lock, and what it is called. */
#ifndef LOCKLINE_LOCK_NAME_H
#define LOCKLINE_LOCK_NAME_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/lockline.h"

enum name_source { NAME_UNKNOWN, NAME_SYMBOL, NAME_PERCPU, NAME_OWNER, NAME_SLAB, NAME_CALL_SITE, NAME_SOURCES };

struct lock_name {
	char name[128];    /* stable across boots: "tasklist_lock", "mm_struct.mmap_lock", "runqueues.__lock" */
	char instance[32]; /* "CPU 3", "tid 812", "" */
	enum name_source source;
	char type[64]; /* of the object that holds it, if that is known; else "" */
	__u64 object;  /* where that begins */
	__u64 cache;   /* its slab cache; 0: not known */
	bool unsure;   /* another stack may tell more */
	bool called;   /* it ends with the function that waited */
	bool orphan;   /* its object is nobody's now: of a process that ends, or is not made yet */
};

/* Whose object a lock lies in, as far as the kernel shows it. */
struct lock_identity {
	__u64 cache;       /* 0: not known */
	char instance[32]; /* as of lock_name; "": not known */
	bool orphan;
};

/* What the programs and the sampled stack know of a lock when it is first seen. */
struct lock_hint {
	__u64 address;
	__u32 kind;  /* enum lock_kind */
	__u32 owner; /* enum lock_owner */
	__u32 owner_offset;
	__u32 owner_id;      /* the waiter's thread for OWNER_TASK, else its process */
	const __u64 *frames; /* kernel stack of a waiter, leaf first; may be NULL */
	int frame_count;
};

#endif /* LOCKLINE_LOCK_NAME_H */
