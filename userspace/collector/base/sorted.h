/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A look into a sorted list. */
#ifndef LOCKLINE_SORTED_H
#define LOCKLINE_SORTED_H

#include <stddef.h>
#include <string.h>
#include <linux/types.h>

/* SORTED_UPTO() below: at is where a __u64 is in each element, of that size, by which the list is sorted. */
static inline size_t sorted_upto(const void *list, size_t count, size_t size, size_t at, __u64 value)
{
	size_t low = 0, high = count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		__u64 found;

		memcpy(&found, (const char *)list + middle * size + at, sizeof(found));
		if (found <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many elements of the list have at most this value in that member: those behind them come after it. */
#define SORTED_UPTO(list, count, member, value)                                                          \
	({                                                                                               \
		_Static_assert(sizeof((list)->member) == sizeof(__u64), "a __u64");                      \
		sorted_upto(list, count, sizeof(*(list)), offsetof(__typeof__(*(list)), member), value); \
	})

#endif /* LOCKLINE_SORTED_H */
