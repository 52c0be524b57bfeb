// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/spelling.h"

static size_t least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* V. Levenshtein, 1965. */
size_t spelling_distance(const char *one, const char *other, size_t limit)
{
	size_t row[SPELLING_LONGEST + 1], length = strnlen(other, SPELLING_LONGEST + 1);
	size_t first = strnlen(one, SPELLING_LONGEST + 1);

	if (first > SPELLING_LONGEST || length > SPELLING_LONGEST || first > length + limit || length > first + limit)
		return SIZE_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 1; i <= first; i++) {
		size_t corner = row[0], least = SIZE_MAX;

		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t same = corner + (one[i - 1] != other[j - 1]);

			corner = row[j];
			row[j] = least_of(same, least_of(row[j], row[j - 1]) + 1);
			least = least_of(least, row[j]);
		}
		if (least_of(least, row[0]) > limit)
			return SIZE_MAX;
	}
	return row[length] > limit ? SIZE_MAX : row[length];
}

void spelling_offer(struct spelling *spelling, const char *known)
{
	size_t distance = spelling_distance(spelling->word, known, spelling->limit);

	/* The next one must be better. */
	if (distance == SIZE_MAX || !*known)
		return;
	snprintf(spelling->nearest, sizeof(spelling->nearest), "%s", known);
	spelling->limit = distance ? distance - 1 : 0;
}
