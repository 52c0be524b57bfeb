// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/patience.h"
#include "base/proc_mapping.h"

int proc_mapping_at(__u32 tgid, __u64 address, struct proc_mapping *out)
{
	FILE *file = patience_open_maps(tgid);
	struct proc_map_line found;
	size_t capacity = 0;
	char *line = NULL;
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && getline(&line, &capacity, file) > 0) {
		if (!proc_map_line_parse(line, &found) || address < found.start || address >= found.end)
			continue;
		out->start = found.start;
		out->end = found.end;
		out->offset = found.offset;
		out->inode = found.inode;
		out->major = found.major;
		out->minor = found.minor;
		out->shared = found.access[3] == 's';
		snprintf(out->path, sizeof(out->path), "%s", found.path);
		err = 0;
	}
	free(line);
	fclose(file);
	return err;
}

bool proc_shares_memory_of(__u32 tgid, const struct proc_mapping *mapping)
{
	FILE *file = patience_open_maps(tgid);
	struct proc_map_line found;
	size_t capacity = 0;
	char *line = NULL;
	bool shares = false;

	while (file && !shares && mapping->shared && mapping->inode && getline(&line, &capacity, file) > 0)
		shares = proc_map_line_parse(line, &found) && found.inode == mapping->inode &&
			 found.major == mapping->major && found.minor == mapping->minor && found.access[1] == 'w' &&
			 found.access[3] == 's';
	free(line);
	if (file)
		fclose(file);
	return shares;
}
