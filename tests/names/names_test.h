/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One C program, one case per run: names_test CASE; without it, the list of cases. */
#ifndef NAMES_TEST_H
#define NAMES_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct btf;

#define expect(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

#define expect_number(value, wanted)                                                                             \
	do {                                                                                                     \
		long long value_ = (long long)(value), wanted_ = (long long)(wanted);                            \
		if (value_ != wanted_) {                                                                         \
			fprintf(stderr, "%s:%d: %s is 0x%llx, not 0x%llx\n", __FILE__, __LINE__, #value, value_, \
				wanted_);                                                                        \
			exit(1);                                                                                 \
		}                                                                                                \
	} while (0)

#define expect_text(value, wanted)                                                                               \
	do {                                                                                                     \
		const char *value_ = (value), *wanted_ = (wanted);                                               \
		if (strcmp(value_, wanted_)) {                                                                   \
			fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #value, value_, \
				wanted_);                                                                        \
			exit(1);                                                                                 \
		}                                                                                                \
	} while (0)

struct test_case {
	const char *name;
	void (*run)(void);
};

extern const struct test_case symbol_cases[], type_cases[], lock_cases[]; /* end with a NULL name */

/* Types as a kernel has them, small: see names_types.c. */
struct btf *make_types(void);

#endif /* NAMES_TEST_H */
