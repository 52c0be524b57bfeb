/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers, times, sizes and lists as people write them on a command line.
 *
 * Each parser takes the whole text or nothing.  It returns 0, -ENOMEM, or
 * -EINVAL with the reason in why; the result is written on success alone.
 */
#ifndef LOCKLINE_VALUES_H
#define LOCKLINE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#define VALUE_WHY   256
#define VALUE_SHOWN 72

/* Sorted, without repeats. */
struct id_list {
	__u32 *ids;
	size_t count;
};

/* Decimal digits alone. */
int parse_count(const char *text, __u64 min, __u64 max, __u64 *out, char why[VALUE_WHY]);
/* "0.5", "250us", "2m"; without bare_is_seconds a unit has to be said (but for 0).  In ns. */
int parse_time(const char *text, bool bare_is_seconds, __u64 min, __u64 max, __u64 *out, char why[VALUE_WHY]);
/* "64M", "1.5G", "65536"; in bytes. */
int parse_size(const char *text, __u64 min, __u64 max, __u64 *out, char why[VALUE_WHY]);
/*
 * "1,2,3", with ranges also "0-3,7".  Adds to the list, which stays sorted and
 * without repeats and has at most limit ids.
 */
int parse_ids(const char *text, bool ranges, __u64 min, __u64 max, size_t limit, struct id_list *list,
	      char why[VALUE_WHY]);
bool id_list_has(const struct id_list *list, __u32 id);

/* Foreign text fit for one line of a message: cut short, control characters as '?'. */
const char *show(const char *text, char shown[VALUE_SHOWN]);
/* The same text, whole: names are other people's, and what would end a line, or a field of it, becomes a '?'. */
const char *on_a_line(char *text);

#endif /* LOCKLINE_VALUES_H */
