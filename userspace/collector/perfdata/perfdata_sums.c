// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "perfdata/perfdata_sums.h"

void perfdata_sums_ahead(const void *context, const struct memory_sample *sample)
{
	const struct perfdata_import *import = context;

	memory_lines_fetch(&import->lines, sample);
}

int perfdata_sums_sample(void *context, const struct memory_sample *sample)
{
	struct perfdata_import *import = context;
	const struct memory_space *space, *kernel = import->tasks.kernel_space;
	__s64 thread = memory_tasks_thread(&import->tasks, sample->pid, sample->tid, &space);

	if (thread == -ENOSPC) {
		import->lines.refused++;
		return 0;
	}
	if (thread < 0)
		return thread;
	import->samples++;
	if (sample->time != MEMORY_NO_TIME) {
		import->first_ns = sample->time < import->first_ns ? sample->time : import->first_ns;
		import->last_ns = sample->time > import->last_ns ? sample->time : import->last_ns;
	}
	if (sample->cpumode != CPUMODE_USER)
		space = sample->cpumode == CPUMODE_KERNEL ? kernel : NULL;
	return memory_lines_add(&import->lines, sample, thread, &import->tasks.objects, space);
}
