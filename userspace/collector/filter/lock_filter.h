/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The words of -L and -S: which of them are addresses, and which are names that only a lock's naming can decide.
 *
 * A word of -L is a kernel address (0x...), a variable (all that lies in it), a name as reports write it
 * (type.member, a per-CPU variable, a function of a call site), the first or the last part of one (inode, siglock), or a
 * pattern of such (* ? [...]).  A word of -S is a function of the kernel or a pattern.
 */
#ifndef LOCKLINE_LOCK_FILTER_H
#define LOCKLINE_LOCK_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/lock_filter.h"
#include "cli/options.h"
#include "names/symbols.h"

#define FILTER_NAMES 64
#define FILTER_WHY   256

struct lock_filter {
	bool locks; /* -L */
	struct address_range ranges[LOCK_RANGES];
	__u32 range_count;
	char *words; /* what names points into */
	const char *names[FILTER_NAMES];
	__u32 name_count;
	bool callers_chosen;           /* -S */
	struct address_range *callers; /* sorted, apart from each other */
	__u32 caller_count;
};

/* Negative errno: a wrong word, which has been told in one line.  Types are read only for words that need them. */
int lock_filter_make(struct lock_filter *filter, const struct options *options, const struct symbols *symbols);
void lock_filter_free(struct lock_filter *filter);
/* Whether one of the names means a lock that is named so. */
bool lock_filter_names(const struct lock_filter *filter, const char *name);
/* Whether a word means a name. */
bool lock_word_matches(const char *word, const char *name);

#endif /* LOCKLINE_LOCK_FILTER_H */
