// SPDX-License-Identifier: GPL-2.0-or-later
/* What threads were seen in, by process and function, where there are more of both than rows. */
#include "sleeps/sleep_rows.h"
#include "tap.h"

static struct sleep_rows rows;

static void each_process_has_its_row(void)
{
	struct sleep_row *row;

	CHECK(sleep_rows_count(&rows, 1, "ep_poll", &row), "a new row wants a name");
	CHECK(!sleep_rows_count(&rows, 1, "ep_poll", &row), "it has one");
	CHECK(row->tgid == 1 && row->seen == 2, "%u %llu", row->tgid, row->seen);
	for (__u32 tgid = 2; tgid <= MOST_ROWS; tgid++)
		sleep_rows_count(&rows, tgid, "ep_poll", &row);
	CHECK(rows.row_count == MOST_ROWS && rows.shared_count == 0, "%d %d", rows.row_count, rows.shared_count);
}

/* A thread that sleeps is none that runs, whether its process has a row or not. */
static void others_are_counted_by_function(void)
{
	struct sleep_row *asleep, *running, *again;

	CHECK(!sleep_rows_count(&rows, 9000, "ep_poll", &asleep), "nobody's row has no name");
	sleep_rows_count(&rows, 9001, "", &running);
	sleep_rows_count(&rows, 9002, "ep_poll", &again);
	CHECK(asleep == again && asleep->tgid == 0 && asleep->seen == 2, "%u %llu", asleep->tgid, asleep->seen);
	CHECK_TEXT(asleep->function, "ep_poll");
	CHECK(running->tgid == 0 && running->seen == 1, "%u %llu", running->tgid, running->seen);
	CHECK_TEXT(running->function, "");
}

static void of_too_many_functions_some_have_no_row(void)
{
	struct sleep_row *row = NULL;
	char function[FUNCTION_NAME];

	for (int i = 0; i < MOST_SHARED_ROWS; i++) {
		snprintf(function, sizeof(function), "wait_%d", i);
		sleep_rows_count(&rows, 9000, function, &row);
	}
	CHECK(!row, "no place is left");
	CHECK(!sleep_rows_count(&rows, 1, "ep_poll", &row) && row && row->tgid == 1, "a row that is there");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(each_process_has_its_row),
		TEST(others_are_counted_by_function),
		TEST(of_too_many_functions_some_have_no_row),
	};

	return RUN_TESTS(tests);
}
