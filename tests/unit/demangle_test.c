// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of C++ and Rust functions as people write them; hostile ones end too. */
#include <stdlib.h>

#include "elf/demangle.h"
#include "tap.h"

#define SIZE 256

static void check(const char *name, const char *want)
{
	char out[SIZE];

	demangle(name, out, sizeof(out));
	CHECK_TEXT(out, want);
}

static void names_of_each_language(void)
{
	check("_ZN13ObjectMonitor5enterEP10JavaThread", "ObjectMonitor::enter");
	check("_ZN12_GLOBAL__N_14lockE", "(anonymous namespace)::lock");
	check("_ZN3foo3barEv.constprop.0", "foo::bar");
	check("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back");
	check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
	check("_RNvCs1234_7mycrate3foo", "mycrate::foo");
}

static void what_is_no_such_name(void)
{
	check("", "");
	check("_Z", "_Z");
	check("_R", "_R");
	check("_Zero", "_Zero");
	check("_ZN13ObjectMonitor", "_ZN13ObjectMonitor");
	check("pthread_mutex_lock", "pthread_mutex_lock");
	check("main.(*Z).put", "main.(*Z).put");
}

static void dots_in_paths_of_go(void)
{
	check("gopkg.in/lumberjack%2ev2.(*Logger).Write", "gopkg.in/lumberjack.v2.(*Logger).Write");
	check("a/b%25c%22.d", "a/b%c\".d");
	check("%2", "%2");
	check("a%", "a%");
	check("a%zz%2g", "a%zz%2g");
	/* Nothing that a terminal obeys. */
	check("a%1b[2J%00%7f", "a%1b[2J%00%7f");
}

/* prefix, and a part many times. */
static void many(const char *prefix, const char *part, int times, const char *rest)
{
	const size_t length = strlen(part);
	char *name = malloc(strlen(prefix) + times * length + strlen(rest) + 1), out[SIZE], *at;

	at = stpcpy(name, prefix);
	for (int i = 0; i < times; i++)
		at = stpcpy(at, part);
	strcpy(at, rest);
	memset(out, 'x', sizeof(out));
	demangle(name, out, sizeof(out));
	CHECK(memchr(out, 0, sizeof(out)), "no end");
	free(name);
}

static void deep_and_long_names(void)
{
	static const int times[] = {1, 100, 500, 2000, 100000};

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		many("_Z1f", "P", times[i], "i");
		many("_ZN", "1a", times[i], "E");
		many("_Z1f", "I", times[i], "");
		many("_Z1fI", "S_", times[i], "Ev");
		many("_RNvC1a", "NvC1b", times[i], "1c");
		many("_RI", "I", times[i], "C1aE");
		many("_RMC0", "R", times[i], "e");
	}
}

/* Each level doubles what it stands for: 2^60 letters. */
static void a_name_that_doubles(void)
{
	char name[SIZE * 4] = "_Z1fISt4pairIiiE", out[SIZE], *at = name + strlen(name);

	for (int i = 0; i < 60; i++) {
		char last[4] = "S0_";

		last[1] = i < 10 ? '0' + i : 'A' + i - 10;
		at += sprintf(at, "St4pairI%s%sE", i < 36 ? last : "SZ_", i < 36 ? last : "SZ_");
	}
	strcpy(at, "Evv");
	demangle(name, out, sizeof(out));
	CHECK(memchr(out, 0, sizeof(out)), "no end");
	CHECK(strlen(out) == SIZE - 1, "%zu letters: %s", strlen(out), out);
}

static void a_small_place(void)
{
	char out[8];

	demangle("_ZN13ObjectMonitor5enterEP10JavaThread", out, sizeof(out));
	CHECK_TEXT(out, "ObjectM");
	demangle("pthread_mutex_lock", out, sizeof(out));
	CHECK_TEXT(out, "pthread");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(names_of_each_language), TEST(what_is_no_such_name), TEST(dots_in_paths_of_go),
		TEST(deep_and_long_names),    TEST(a_name_that_doubles),  TEST(a_small_place),
	};

	return RUN_TESTS(tests);
}
