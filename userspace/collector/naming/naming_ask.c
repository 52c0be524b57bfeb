// SPDX-License-Identifier: GPL-2.0-or-later
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/values.h"
#include "naming/naming_ask.h"
#include "helper/naming_protocol.h"
#include "naming/user_symbols.h"

/* Who asks has few addresses: each may need a debug file to be read. */
#define MOST_LINES     4096
#define MOST_PROCESSES 64

bool naming_ask_wanted(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], "names");
}

int naming_ask_main(void)
{
	struct user_symbols *users = NULL;
	char name[NAMING_NAME], module[PATH_MAX];
	unsigned long long address;
	unsigned int pid, lines = 0;
	__u64 offset;
	int err = user_symbols_open(&users, MOST_PROCESSES);

	while (!err && lines++ < MOST_LINES && scanf("%u %llx", &pid, &address) == 2) {
		offset = 0;
		name[0] = module[0] = '\0';
		/* A process that is gone has no names: that is an answer. */
		user_symbols_lookup(users, pid, address, name, sizeof(name), &offset, module, sizeof(module));
		printf("%llu\t%s\t%s\n", (unsigned long long)offset, on_a_line(module), on_a_line(name));
	}
	user_symbols_close(users);
	return err || fflush(stdout) || ferror(stdout) ? 1 : 0;
}
