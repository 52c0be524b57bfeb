/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of a JVM, page by page, by whoever can read it.  It may be forged: how many pages one question takes is
 * bounded, and what is read is numbers and text.
 */
#ifndef LOCKLINE_HOTSPOT_MEMORY_H
#define LOCKLINE_HOTSPOT_MEMORY_H

#include <stddef.h>
#include <linux/types.h>

#define HOTSPOT_PAGE  4096u
#define HOTSPOT_PAGES 512u  /* that are kept during one question */
#define HOTSPOT_MOST  4096u /* that one question may read */
#define HOTSPOT_WORDS 32u   /* that lie apart, and are read at once */

struct hotspot_memory {
	/* One page into out; negative errno.  Begins at a multiple of its size. */
	int (*fetch)(void *context, __u64 address, __u8 *out);
	/* So many words, HOTSPOT_WORDS at most, which are in no page that was read; NULL: page by page. */
	int (*fetch_words)(void *context, const __u64 *addresses, __u32 count, __u64 *out);
	void *context;
	__u32 left;              /* pages that may still be read */
	__u64 at[HOTSPOT_PAGES]; /* address + 1; 0: free */
	__u8 pages[HOTSPOT_PAGES][HOTSPOT_PAGE];
};

/* Forgets what was read: memory changes between two questions. */
void hotspot_memory_begin(struct hotspot_memory *memory);
/* Negative errno; -E2BIG: the question takes too much. */
int hotspot_read(struct hotspot_memory *memory, __u64 address, void *out, size_t size);
/* A number of 1, 2, 4 or 8 bytes. */
int hotspot_number(struct hotspot_memory *memory, __u64 address, size_t size, __u64 *out);
int hotspot_word(struct hotspot_memory *memory, __u64 address, __u64 *out);
/* Words at so many addresses. */
int hotspot_words(struct hotspot_memory *memory, const __u64 *addresses, __u32 count, __u64 *out);
/* A text that ends with 0; what does not fit is cut. */
int hotspot_text(struct hotspot_memory *memory, __u64 address, char *out, size_t size);
/*
 * A number of 1 to 5 bytes (UNSIGNED5), and *at behind it: a byte below a bound ends it.  Since JDK 20 no byte is 0,
 * and all count one less: `without` is 1 then.
 */
int hotspot_unsigned5(struct hotspot_memory *memory, __u64 *at, __u32 without, __u32 *out);

#endif /* LOCKLINE_HOTSPOT_MEMORY_H */
