// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads "TGID ADDRESS" lines, answers each with "name offset module", tab-separated. */
#include <stdio.h>

#include "naming/naming_helper.h"
#include "naming/user_symbols.h"

int main(int argc, char **argv)
{
	char name[256], module[512];
	struct user_symbols *users;
	unsigned long long address;
	unsigned int tgid;
	__u64 offset;

	if (naming_helper_wanted(argc, argv))
		return naming_helper_main();
	if (user_symbols_open(&users, 2))
		return 1;
	while (scanf("%u %llx", &tgid, &address) == 2) {
		if (user_symbols_lookup(users, tgid, address, name, sizeof(name), &offset, module, sizeof(module)))
			return 1;
		printf("%s\t%llu\t%s\n", name, offset, module);
		fflush(stdout);
	}
	user_symbols_close(users);
	return 0;
}
