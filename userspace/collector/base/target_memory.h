/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of another process, page by page, by whoever can read it.  It may be forged: how many pages one question
 * takes is bounded, and what is read is numbers and text.
 */
#ifndef LOCKLINE_TARGET_MEMORY_H
#define LOCKLINE_TARGET_MEMORY_H

#include <stddef.h>
#include <linux/types.h>

#define TARGET_PAGE  4096u
#define TARGET_PAGES 512u  /* that are kept during one question */
#define TARGET_MOST  4096u /* that one question may read */
#define TARGET_WORDS 32u   /* that lie apart, and are read at once */

struct target_memory {
	/* One page into out; negative errno.  Begins at a multiple of its size. */
	int (*fetch)(void *context, __u64 address, __u8 *out);
	/* So many words, TARGET_WORDS at most, which are in no page that was read; NULL: page by page. */
	int (*fetch_words)(void *context, const __u64 *addresses, __u32 count, __u64 *out);
	void *context;
	__u32 left;             /* pages that may still be read */
	__u64 at[TARGET_PAGES]; /* address + 1; 0: free */
	__u8 pages[TARGET_PAGES][TARGET_PAGE];
};

/* Forgets what was read: memory changes between two questions. */
void target_begin(struct target_memory *memory);
/* Negative errno; -E2BIG: the question takes too much. */
int target_read(struct target_memory *memory, __u64 address, void *out, size_t size);
/* A number of 1, 2, 4 or 8 bytes. */
int target_number(struct target_memory *memory, __u64 address, size_t size, __u64 *out);
int target_word(struct target_memory *memory, __u64 address, __u64 *out);
/* Words at so many addresses. */
int target_words(struct target_memory *memory, const __u64 *addresses, __u32 count, __u64 *out);
/* A text that ends with 0; what does not fit is cut. */
int target_text(struct target_memory *memory, __u64 address, char *out, size_t size);

#endif /* LOCKLINE_TARGET_MEMORY_H */
