// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/descendants.h"
#include "base/small_file.h"

/* Forks outrun the looks at /proc only if they never end. */
#define MAX_LOOKS 64

static __u32 parent_of(const char *process)
{
	char path[300], line[1024], *name_end;

	snprintf(path, sizeof(path), "/proc/%s/stat", process);
	if (first_line(path, line, sizeof(line)))
		return 0;
	/* "ID (NAME) STATE PARENT ..."; a name may hold brackets. */
	name_end = strrchr(line, ')');
	return name_end && strlen(name_end) > 4 ? strtoul(name_end + 4, NULL, 10) : 0;
}

/* How many processes were let in that were not before. */
static int follow_children(struct probes *probes)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	int found = 0;

	while (dir && (entry = readdir(dir))) {
		__u32 id, parent;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		id = strtoul(entry->d_name, NULL, 10);
		parent = probes_followed(probes, id) ? 0 : parent_of(entry->d_name);
		if (!parent || !probes_followed(probes, parent))
			continue;
		probes_follow(probes, id);
		found++;
	}
	if (dir)
		closedir(dir);
	return found;
}

void descendants_follow(struct probes *probes)
{
	for (int look = 0; look < MAX_LOOKS && follow_children(probes); look++)
		;
}
