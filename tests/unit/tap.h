/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A C test says what it found in TAP, one line per test; test_collector.py reads it. */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
};

static int complaints;

/* Freed memory is kept to find its use: 16 MiB of it, not 256 of which each page is new to the processor's caches. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "quarantine_size_mb=16";
}

#define CHECK(condition, format, ...)                                                               \
	do {                                                                                        \
		if (!(condition)) {                                                                 \
			printf("# line %d: %s: " format "\n", __LINE__, #condition, ##__VA_ARGS__); \
			complaints++;                                                               \
		}                                                                                   \
	} while (0)

#define CHECK_TEXT(is, want)                                                                        \
	do {                                                                                        \
		const char *is_text = (is), *want_text = (want);                                    \
		CHECK(!strcmp(is_text, want_text), "is \"%s\", wanted \"%s\"", is_text, want_text); \
	} while (0)

static inline int run_tests(const struct test *tests, int count)
{
	int failed = 0;

	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		complaints = 0;
		tests[i].run();
		printf("%sok %d - %s\n", complaints ? "not " : "", i + 1, tests[i].name);
		failed += complaints != 0;
	}
	return failed != 0;
}

#define TEST(function)              \
	{                           \
#function, function \
	}
#define RUN_TESTS(tests) run_tests(tests, sizeof(tests) / sizeof((tests)[0]))

#endif /* TAP_H */
