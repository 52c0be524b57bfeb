// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "perfdata/perfdata_sums.h"

/* So many samples before its turn each step of a sample is made. */
#define AHEAD_PLACE  12
#define AHEAD_ACCESS 8
#define AHEAD_MORE   4
#define AHEAD_COUNTS 2
#define AHEAD        16

/* A sample that comes soon. */
struct soon {
	__s64 thread; /* or negative errno */
	const struct memory_space *space;
	__u32 access;
};

static void look_up_thread(struct perfdata_import *import, const struct memory_sample *sample, struct soon *soon)
{
	soon->thread = memory_tasks_thread(&import->tasks, sample->pid, sample->tid, &soon->space);
}

static int add_sample(struct perfdata_import *import, const struct memory_sample *sample, const struct soon *soon)
{
	const struct memory_space *space = soon->space;

	if (soon->thread == -ENOSPC) {
		import->lines.refused++;
		return 0;
	}
	if (soon->thread < 0)
		return soon->thread;
	import->samples++;
	if (sample->time != MEMORY_NO_TIME) {
		import->first_ns = sample->time < import->first_ns ? sample->time : import->first_ns;
		import->last_ns = sample->time > import->last_ns ? sample->time : import->last_ns;
	}
	if (sample->cpumode != CPUMODE_USER)
		space = sample->cpumode == CPUMODE_KERNEL ? import->tasks.kernel_space : NULL;
	return memory_lines_add(&import->lines, sample, soon->thread, &import->tasks.objects, space);
}

/* What they need lies in the processor's caches. */
static int add_few(struct perfdata_import *import, const struct memory_sample *samples, __u32 count)
{
	struct soon soon;
	int err = 0;

	for (__u32 i = 0; !err && i < count; i++) {
		look_up_thread(import, &samples[i], &soon);
		err = add_sample(import, &samples[i], &soon);
	}
	return err;
}

int perfdata_sums_samples(void *context, const struct memory_sample *samples, __u32 count)
{
	struct perfdata_import *import = context;
	const struct memory_lines *lines = &import->lines;
	struct soon ring[AHEAD] = {}, *soon;
	int err = 0;

	if (!memory_lines_need_fetching(lines))
		return add_few(import, samples, count);
	for (__u32 i = 0; i < AHEAD_COUNTS && i < count; i++)
		look_up_thread(import, &samples[i], &ring[i]);
	for (__u32 i = 0; !err && i < count; i++) {
		if (i + AHEAD_PLACE < count)
			memory_lines_fetch(lines, &samples[i + AHEAD_PLACE]);
		if (i + AHEAD_ACCESS < count)
			ring[(i + AHEAD_ACCESS) % AHEAD].access =
				memory_lines_fetch_access(lines, &samples[i + AHEAD_ACCESS]);
		if (i + AHEAD_MORE < count)
			memory_lines_fetch_more(lines, ring[(i + AHEAD_MORE) % AHEAD].access);
		if (i + AHEAD_COUNTS < count) {
			soon = &ring[(i + AHEAD_COUNTS) % AHEAD];
			look_up_thread(import, &samples[i + AHEAD_COUNTS], soon);
			if (soon->thread >= 0)
				memory_lines_fetch_counts(lines, soon->access, soon->thread,
							  samples[i + AHEAD_COUNTS].cpu);
		}
		err = add_sample(import, &samples[i], &ring[i % AHEAD]);
	}
	return err;
}
