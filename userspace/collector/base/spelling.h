/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which known word a misspelled one was meant to be. */
#ifndef LOCKLINE_SPELLING_H
#define LOCKLINE_SPELLING_H

#include <stddef.h>

#define SPELLING_LONGEST 63

/* The nearest of the words offered so far; begin with {.word = ..., .limit = ...}. */
struct spelling {
	const char *word;
	size_t limit;                       /* changes of a letter; further words are not meant */
	char nearest[SPELLING_LONGEST + 1]; /* "": none */
};

/* Letters to change, add or leave out to make one word of the other; more than limit: SIZE_MAX. */
size_t spelling_distance(const char *one, const char *other, size_t limit);
void spelling_offer(struct spelling *spelling, const char *known);

#endif /* LOCKLINE_SPELLING_H */
