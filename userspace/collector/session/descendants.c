// SPDX-License-Identifier: GPL-2.0-or-later
#include "session/descendants.h"
#include "base/proc.h"

/* Forks outrun the looks at /proc only if they never end. */
#define MAX_LOOKS 64

/* How many processes were let in that were not before. */
static int follow_children(struct probes *probes)
{
	DIR *dir = opendir("/proc");
	int found = 0;
	__u32 id;

	while (dir && (id = proc_next(dir))) {
		struct process_stat child;

		if (probes_followed(probes, id) || process_stat_read(id, &child) || !child.parent ||
		    !probes_followed(probes, child.parent))
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
