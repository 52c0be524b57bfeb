// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#include "containers/cgroup_ask.h"
#include "containers/cgroups.h"
#include "containers/containers.h"
#include "names/btf_members.h"

enum { GROUP = 1, CGROUP, CONTAINER, POD, WORDS };

bool cgroup_ask_wanted(int argc, char **argv)
{
	return argc == WORDS && !strcmp(argv[GROUP], "group");
}

static const char *named(const char *word)
{
	return *word ? word : NULL;
}

static int directory_of(char **argv, const struct types *types, char directory[PATH_MAX])
{
	struct cgroup_target target = {};
	int err;

	if (!named(argv[CGROUP]))
		return container_resolve(named(argv[CONTAINER]), named(argv[POD]), directory);
	err = cgroup_resolve(types, argv[CGROUP], &target);
	if (!err)
		memcpy(directory, target.directory, PATH_MAX);
	return err;
}

int cgroup_ask_main(char **argv)
{
	char directory[PATH_MAX];
	struct types *types = NULL;
	int err;

	types_open(&types);
	err = directory_of(argv, types, directory);
	types_close(types);
	return err || puts(directory) < 0 || fflush(stdout) ? 1 : 0;
}
