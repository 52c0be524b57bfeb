// SPDX-License-Identifier: GPL-2.0-or-later
/* Go's table of functions: what it says, and that nothing outside is read whatever it says. */
#include <stdlib.h>

#include "elf/go_table.h"
#include "tap.h"

#define FUNCTIONS 3
#define NAMES     72
#define ENTRIES   104
#define BYTES     (ENTRIES + 8 * FUNCTIONS + 4 + 8 * FUNCTIONS)
#define TEXT      0x401000

static const char names[] = "main.main\0sync.(*Mutex).Lock\0";
static const __u32 begins[FUNCTIONS + 1] = {0, 0x40, 0x100, 0x180};

static void put(__u8 *table, size_t at, __u32 value)
{
	memcpy(table + at, &value, sizeof(value));
}

/* As Go 1.20 writes it; the last function's name is the first's.  In memory of its own, whose end is watched. */
static __u8 *make(size_t size)
{
	const __u32 name_of[FUNCTIONS] = {0, 10, 0};
	__u8 whole[BYTES] = {0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}, *table = malloc(size);

	put(whole, 8, FUNCTIONS);
	put(whole, 24, TEXT);
	put(whole, 32, NAMES);
	put(whole, 64, ENTRIES);
	memcpy(whole + NAMES, names, sizeof(names));
	for (int i = 0; i <= FUNCTIONS; i++) {
		put(whole, ENTRIES + 8 * i, begins[i]);
		if (i == FUNCTIONS)
			break;
		put(whole, ENTRIES + 8 * i + 4, 8 * FUNCTIONS + 4 + 8 * i);
		put(whole, ENTRIES + 8 * FUNCTIONS + 4 + 8 * i, begins[i]);
		put(whole, ENTRIES + 8 * FUNCTIONS + 8 + 8 * i, name_of[i]);
	}
	memcpy(table, whole, size);
	return table;
}

/* Asks for every place and a name; what comes back ends in the table. */
static int look_around(const __u8 *bytes, size_t size)
{
	struct go_function function;
	struct go_table table;
	int found = 0;

	if (!go_table_read(&table, bytes, size))
		return -1;
	for (__u64 place = 0; place < 0x200; place += 8)
		if (go_table_at(&table, place, &function)) {
			found++;
			CHECK(place >= function.begin && place < function.end, "%#llx in %#llx to %#llx", place,
			      function.begin, function.end);
			CHECK(strlen(function.name) < size, "no end");
		}
	go_table_at(&table, ~0ull, &function);
	go_table_named(&table, "no such name", &function);
	return found;
}

static void functions_by_place_and_name(void)
{
	__u8 *bytes = make(BYTES);
	struct go_function function;
	struct go_table table;

	CHECK(go_table_read(&table, bytes, BYTES), "not read");
	CHECK(table.text == TEXT, "text at %#llx", table.text);
	CHECK(go_table_at(&table, 0, &function), "nothing");
	CHECK_TEXT(function.name, "main.main");
	CHECK(go_table_at(&table, 0xff, &function), "nothing");
	CHECK_TEXT(function.name, "sync.(*Mutex).Lock");
	CHECK(function.begin == 0x40 && function.end == 0x100, "%#llx to %#llx", function.begin, function.end);
	CHECK(!go_table_at(&table, 0x180, &function), "behind the last");
	CHECK(go_table_named(&table, "sync.(*Mutex).Lock", &function) && function.begin == 0x40, "not by name");
	CHECK(!go_table_named(&table, "sync.(*Mutex).Loc", &function), "by a part of its name");
	free(bytes);
}

static void older_and_other_tables(void)
{
	__u8 *bytes = make(BYTES);
	struct go_table table;

	bytes[0] = 0xf0;
	CHECK(go_table_read(&table, bytes, BYTES), "1.18");
	bytes[0] = 0xfa;
	CHECK(!go_table_read(&table, bytes, BYTES), "1.16, which has another format");
	bytes[0] = 0xf1;
	bytes[7] = 16;
	CHECK(!go_table_read(&table, bytes, BYTES), "words of 16 bytes");
	free(bytes);
}

static void cut_anywhere(void)
{
	int most = 0;

	for (size_t size = 0; size <= BYTES; size++) {
		__u8 *bytes = make(size);
		int found = look_around(bytes, size);

		most = found > most ? found : most;
		free(bytes);
	}
	CHECK(most == 0x180 / 8, "%d places", most);
}

/* Each word of the table becomes each of these. */
static void any_word_a_lie(void)
{
	static const __u32 lies[] = {0, 1, 7, NAMES, BYTES - 1, BYTES, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};

	for (size_t at = 0; at + 4 <= BYTES; at += 4)
		for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
			__u8 *bytes = make(BYTES);

			put(bytes, at, lies[i]);
			look_around(bytes, BYTES);
			/* And in the upper half. */
			if (at + 8 <= BYTES)
				put(bytes, at + 4, lies[i]);
			look_around(bytes, BYTES);
			free(bytes);
		}
}

static void a_name_without_end(void)
{
	__u8 *bytes = make(BYTES);
	struct go_function function;
	struct go_table table;

	memset(bytes + BYTES - 4, 'x', 4);
	put(bytes, 32, BYTES - 4); /* where names begin */
	CHECK(go_table_read(&table, bytes, BYTES), "not read");
	CHECK(!go_table_at(&table, 0, &function), "a name behind the end");
	free(bytes);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(functions_by_place_and_name),
		TEST(older_and_other_tables),
		TEST(cut_anywhere),
		TEST(any_word_a_lie),
		TEST(a_name_without_end),
	};

	return RUN_TESTS(tests);
}
