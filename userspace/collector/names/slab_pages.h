/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From an address to its slab cache on kernels before 6.13, by the kernel's
 * table of pages.  On x86-64 two variables say where it is (KALLSYMS_ALL); on
 * arm64 a guess that a known object must confirm.
 */
#ifndef LOCKLINE_SLAB_PAGES_H
#define LOCKLINE_SLAB_PAGES_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/resolve.h"

struct resolver;
struct symbols;
struct types;

/* Offsets of the members that are read. */
struct slab_pages {
	__u64 pages;  /* struct page of the first byte of memory; 0: not known */
	__u64 memory; /* that byte's address in the direct map */
	__u64 memory_end;
	__u32 page_bytes;
	__u32 page_size;
	__u32 compound_head;
	__u32 slab_cache;
	__u32 type;      /* where a slab page says that it is one */
	__u32 type_bits; /* of that word: shifted right */
	__u32 type_mask;
	__u32 type_value;
	__u32 size, object_size, oo, min, references, red_left_pad, name;
	bool has_red_left_pad;
};

/* Never fails: slab_pages_find() says -ENOSYS where the pages cannot be read. */
void slab_pages_open(struct slab_pages *pages, const struct resolver *resolver, const struct symbols *symbols,
		     const struct types *types);
/* The cache, and where the slab of that address begins; -ENOENT if it is in none. */
int slab_pages_find(const struct slab_pages *pages, const struct resolver *resolver, __u64 address,
		    struct slab_cache *out, __u64 *slab);

#endif /* LOCKLINE_SLAB_PAGES_H */
