// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#include "sleeps/sleep_rows.h"

/* The row of that key, made if there is none; NULL: there is no place for it. */
static struct sleep_row *row_of(struct sleep_row *rows, int *count, int most, __u32 tgid, const char *function)
{
	struct sleep_row *row = rows, *end = rows + *count;

	while (row < end && (row->tgid != tgid || strcmp(row->function, function)))
		row++;
	if (row < end)
		return row;
	if (*count == most)
		return NULL;
	++*count;
	row->tgid = tgid;
	snprintf(row->function, sizeof(row->function), "%s", function);
	return row;
}

bool sleep_rows_count(struct sleep_rows *rows, __u32 tgid, const char *function, struct sleep_row **out)
{
	struct sleep_row *row = row_of(rows->rows, &rows->row_count, MOST_ROWS, tgid, function);

	if (!row)
		row = row_of(rows->shared, &rows->shared_count, MOST_SHARED_ROWS, 0, function);
	*out = row;
	return row && !row->seen++ && row->tgid;
}
