// SPDX-License-Identifier: GPL-2.0-or-later
/* Any bytes as a perf.data file: read, summed and ranked, as an import does before it writes. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory_rank.h"
#include "perfdata/perfdata_import.h"

#define BUDGET (32ull << 20)

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

static void import(const struct options *options)
{
	struct perfdata_import *import = malloc(sizeof(*import));
	struct memory_rank rank;

	if (!import || perfdata_import_open(import, options))
		abort();
	if (!perfdata_import_read(import) && !memory_lines_finish(&import->lines)) {
		/* What was counted is in the lines, or was said to be left out. */
		__u64 kept = 0;

		for (__u32 i = 0; i < import->lines.access_count; i++)
			kept += import->lines.accesses[i].count;
		if (kept + import->lines.refused > import->lines.totals.nr_entries + import->tasks.refused)
			abort();
		if (import->budget.used > import->budget.limit)
			abort();
		if (!memory_rank_make(&rank, &import->lines, 1000, false))
			memory_rank_free(&rank);
	}
	perfdata_import_close(import);
	free(import);
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	int fd = memfd_create("perf.data", MFD_CLOEXEC);
	struct options options = {.decoder = DECODER_NATIVE, .memory_bytes = BUDGET};
	char path[32];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	options.input = path;
	import(&options);
	close(fd);
	return 0;
}
