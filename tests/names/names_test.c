// SPDX-License-Identifier: GPL-2.0-or-later
#include "names_test.h"

int main(int argc, char **argv)
{
	const struct test_case *const tables[] = {symbol_cases, type_cases, lock_cases};

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		for (const struct test_case *test = tables[i]; test->name; test++) {
			if (argc < 2) {
				puts(test->name);
			} else if (!strcmp(argv[1], test->name)) {
				test->run();
				return 0;
			}
		}
	}
	if (argc < 2)
		return 0;
	fprintf(stderr, "no such case: %s\n", argv[1]);
	return 2;
}
