/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether the object that a watched line is of was freed, or its memory given
 * out anew, while the slab cache stays the same.  Nothing is put on the
 * kernel's allocation paths: an access of the watched line tells it, or the
 * link that a free object holds.
 */
#ifndef LOCKLINE_WATCH_FREED_H
#define LOCKLINE_WATCH_FREED_H

#include <stdbool.h>
#include <linux/types.h>

#include "watch/watch_code.h"

struct lock_names;

/* Where the object's slab begins: where memory was short a slab is smaller, and the kernel tells nobody. */
struct watch_slab {
	__u64 begin;
	__u64 bytes;
	__u64 link; /* the word that a free object's link is in, when the watch began */
};

struct watch_freed {
	__u64 address; /* of the target */
	bool is_lock;  /* a lock is known to begin there */
	__u64 cache;   /* 0: in no slab */
	__u32 size;    /* distance of two objects */
	__u32 red_left_pad;
	__u32 link; /* where in the object a free one has its link */
	bool can_read_links;
	bool of_allocator;  /* it uses the object in its work, so that its accesses prove nothing */
	bool stays_of_type; /* the cache has a constructor, or frees pages after a grace period of RCU alone */
	__u64 random;       /* that links are mixed with (CONFIG_SLAB_FREELIST_HARDENED) */
	struct watch_slab slabs[2];
	int slab_count;
};

/* type: of the target's object, "" if not known. */
void watch_freed_open(struct watch_freed *freed, const struct lock_names *names, __u64 address, const char *type,
		      bool is_lock);
bool watch_freed_is_allocators(const char *cache, const char *type);
/* What an access to its line proves, in words; NULL: nothing.  told: ACCESS_*, what it did. */
const char *watch_freed_by_access(const struct watch_freed *freed, const struct watch_access *access, __u8 told);
/* What can be read now; NULL: nothing that tells. */
const char *watch_freed_by_reading(const struct watch_freed *freed, const struct lock_names *names);

/* Functions that touch what is free, or just now given out. */
enum watch_toucher watch_toucher(const char *function);
/* Certain to be of the same object as the target. */
bool watch_freed_owns(const struct watch_freed *freed, __u64 address);
/* Whether a word at the link's place is a free object's link in that slab. */
bool watch_freed_is_link(const struct watch_freed *freed, const struct watch_slab *slab, __u64 word);

#endif /* LOCKLINE_WATCH_FREED_H */
