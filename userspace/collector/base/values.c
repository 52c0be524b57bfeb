// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/values.h"

struct unit {
	const char *suffix;
	__u64 factor;
};

static const struct unit times[] = {
	{"ns", 1},          {"us", 1000},         {"ms", 1000000},       {"s", 1000000000},
	{"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}, {},
};

static const struct unit sizes[] = {
	{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {},
};

static int refuse(char why[VALUE_WHY], const char *reason)
{
	snprintf(why, VALUE_WHY, "%s", reason);
	return -EINVAL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits at *text, which is moved behind them. */
static int take_digits(const char **text, __u64 *out)
{
	const char *at = *text;
	__u64 value = 0;

	if (!is_digit(*at))
		return -EINVAL;
	for (; is_digit(*at); at++)
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *at - '0', &value))
			return -ERANGE;
	*text = at;
	*out = value;
	return 0;
}

/* A value in the largest unit that gives a short exact number: for messages. */
static const char *in_words(__u64 value, const struct unit *units, char text[32])
{
	const struct unit *best = units;

	for (const struct unit *unit = units; unit->suffix; unit++)
		if (value >= unit->factor && !(value % unit->factor))
			best = unit;
	snprintf(text, 32, "%llu%s", (unsigned long long)(value / best->factor), best->suffix);
	return text;
}

static int check_range(__u64 value, __u64 min, __u64 max, const struct unit *units, char why[VALUE_WHY])
{
	char low[32], high[32];

	if (value >= min && value <= max)
		return 0;
	snprintf(why, VALUE_WHY, "out of range, %s to %s", in_words(min, units, low), in_words(max, units, high));
	return -EINVAL;
}

static const struct unit plain[] = {{"", 1}, {}};

int parse_count(const char *text, __u64 min, __u64 max, __u64 *out, char why[VALUE_WHY])
{
	__u64 value = 0;
	int err = take_digits(&text, &value);

	if (err == -ERANGE)
		value = ~0ull;
	else if (err || *text)
		return refuse(why, "not a whole number");
	err = check_range(value, min, max, plain, why);
	if (!err)
		*out = value;
	return err;
}

/*
 * "12", "0.5", ".5" is not one.  The fraction is rounded down to what the unit
 * can hold; more than nine digits of it are refused.
 */
static int parse_scaled(const char *text, const struct unit *units, const char *bare, const char *expected, __u64 min,
			__u64 max, __u64 *out, char why[VALUE_WHY])
{
	__u64 whole = 0, fraction = 0, scale = 1, value;
	const struct unit *unit;
	bool too_large = false;
	int err;

	err = take_digits(&text, &whole);
	if (err == -EINVAL)
		return refuse(why, expected);
	too_large = err == -ERANGE;
	while (too_large && is_digit(*text))
		text++;
	if (*text == '.') {
		const char *point = ++text;

		if (take_digits(&text, &fraction) || text - point > 9)
			return refuse(why, expected);
		for (ptrdiff_t i = text - point; i; i--)
			scale *= 10;
	}
	if (!*text) {
		if (!bare && (whole || fraction || too_large))
			return refuse(why, "give a unit: ns, us, ms or s, as in 250us");
		text = bare ? bare : "ns";
	}
	for (unit = units; unit->suffix; unit++)
		if (!strcmp(unit->suffix, text))
			break;
	if (!unit->suffix)
		return refuse(why, expected);
	too_large |= __builtin_mul_overflow(whole, unit->factor, &value);
	/* below 10^9 times at most 60 * 10^9: fits */
	too_large |= __builtin_add_overflow(value, fraction * unit->factor / scale, &value);
	err = check_range(too_large ? ~0ull : value, min, max, units, why);
	if (!err)
		*out = value;
	return err;
}

int parse_time(const char *text, bool bare_is_seconds, __u64 min, __u64 max, __u64 *out, char why[VALUE_WHY])
{
	return parse_scaled(text, times, bare_is_seconds ? "s" : NULL,
			    bare_is_seconds ? "not a time; examples: 10, 0.5, 500ms, 2m"
					    : "not a time; examples: 250us, 1ms, 0.5s",
			    min, max, out, why);
}

int parse_size(const char *text, __u64 min, __u64 max, __u64 *out, char why[VALUE_WHY])
{
	return parse_scaled(text, sizes, "", "not a size; examples: 64M, 1.5G", min, max, out, why);
}

static int by_id(const void *left, const void *right)
{
	__u32 a = *(const __u32 *)left, b = *(const __u32 *)right;

	return a < b ? -1 : a > b;
}

bool id_list_has(const struct id_list *list, __u32 id)
{
	return list->count && bsearch(&id, list->ids, list->count, sizeof(id), by_id);
}

static void sort_unique(struct id_list *list)
{
	size_t kept = 0;

	qsort(list->ids, list->count, sizeof(*list->ids), by_id);
	for (size_t i = 0; i < list->count; i++)
		if (!kept || list->ids[kept - 1] != list->ids[i])
			list->ids[kept++] = list->ids[i];
	list->count = kept;
}

static int take_range(const char **text, bool ranges, __u64 min, __u64 max, __u64 *first, __u64 *last,
		      char why[VALUE_WHY])
{
	const char *expected =
		ranges ? "not a list of numbers and ranges, as in 0-3,7" : "not a list of numbers, as in 1,2,3";
	int err = take_digits(text, first);

	*last = *first;
	if (!err && ranges && **text == '-') {
		++*text;
		err = take_digits(text, last);
	}
	if (err == -EINVAL || (!err && **text && **text != ','))
		return refuse(why, expected);
	if (err)
		*first = ~0ull;
	err = check_range(*first, min, max, plain, why);
	if (!err)
		err = check_range(*last, min, max, plain, why);
	if (!err && *first > *last)
		return refuse(why, "a range must go up, as in 0-3");
	return err;
}

int parse_ids(const char *text, bool ranges, __u64 min, __u64 max, size_t limit, struct id_list *list,
	      char why[VALUE_WHY])
{
	size_t room = 4 * limit; /* repeats are only found at the end */
	struct id_list merged = {};
	__u64 first = 0, last = 0;
	int err;

	merged.ids = malloc(room * sizeof(*merged.ids));
	if (!merged.ids)
		return -ENOMEM;
	if (list->count)
		memcpy(merged.ids, list->ids, list->count * sizeof(*merged.ids));
	merged.count = list->count;

	for (;; text++) {
		err = take_range(&text, ranges, min, max, &first, &last, why);
		if (err)
			goto out;
		if (last - first >= room - merged.count)
			goto too_many;
		for (__u64 id = first; id <= last; id++)
			merged.ids[merged.count++] = id;
		if (!*text)
			break;
	}
	sort_unique(&merged);
	if (merged.count > limit)
		goto too_many;
	free(list->ids);
	*list = merged;
	return 0;
too_many:
	snprintf(why, VALUE_WHY, "too many numbers, at most %zu", limit);
	err = -EINVAL;
out:
	free(merged.ids);
	return err;
}

const char *show(const char *text, char shown[VALUE_SHOWN])
{
	size_t i;

	for (i = 0; text[i] && i < VALUE_SHOWN - 4; i++)
		shown[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
	strcpy(shown + i, text[i] ? "..." : "");
	return shown;
}

const char *on_a_line(char *text)
{
	for (char *one = text; *one; one++)
		if ((unsigned char)*one < ' ' || *one == 0x7f)
			*one = '?';
	return text;
}
