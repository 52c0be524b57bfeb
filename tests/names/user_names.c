// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads "TGID ADDRESS" lines, answers each with "name offset module", tab-separated; "TGID ADDRESS frames": how many
 * frames a stack of zeros has there; "TGID ADDRESS again": as the first, with maps read again; "TGID ADDRESS java":
 * what the process's JVM calls the code there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "helper/naming_helper.h"
#include "naming/user_symbols.h"
#include "naming/user_unwind.h"

static int count_frames(struct user_unwind *unwind, unsigned int tgid, __u64 address)
{
	struct user_stack stack = {.tgid = tgid, .pc = address, .size = NAMING_STACK_BYTES};
	__u64 frames[NAMING_FRAMES];

	return user_unwind(unwind, &stack, frames);
}

int main(int argc, char **argv)
{
	char name[256], module[512];
	struct user_symbols *users;
	unsigned long long address;
	struct user_unwind *unwind;
	char line[128], what[16];
	unsigned int tgid;
	__u64 offset;

	if (naming_helper_wanted(argc, argv))
		return naming_helper_main();
	if (user_symbols_open(&users, 2))
		return 1;
	unwind = user_unwind_open(user_symbols_client(users));
	while (fgets(line, sizeof(line), stdin)) {
		int words = sscanf(line, "%u %llx %15s", &tgid, &address, what);

		if (words < 2)
			return 1;
		if (words == 3 && !strcmp(what, "java")) {
			if (!user_unwind_name(unwind, tgid, address, true, name, sizeof(name), &offset))
				*name = offset = 0;
			printf("%s\t%llu\t[java]\n", name, (unsigned long long)offset);
			fflush(stdout);
			continue;
		}
		if (words == 3 && !strcmp(what, "again")) {
			user_symbols_maps_again(users);
		} else if (words == 3) {
			printf("%d\n", count_frames(unwind, tgid, address));
			fflush(stdout);
			continue;
		}
		if (user_symbols_lookup(users, tgid, address, name, sizeof(name), &offset, module, sizeof(module)) ==
		    -EINVAL)
			return 1;
		printf("%s\t%llu\t%s\n", name, offset, module);
		fflush(stdout);
	}
	user_unwind_close(unwind);
	user_symbols_close(users);
	return 0;
}
