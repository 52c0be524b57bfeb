// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>
#include <sys/resource.h>

#include "base/files_limit.h"

static struct rlimit before;
static bool raised;

void files_limit_raise(void)
{
	struct rlimit limit;

	if (raised || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	before = limit;
	limit.rlim_cur = limit.rlim_max;
	raised = !setrlimit(RLIMIT_NOFILE, &limit);
}

void files_limit_restore(void)
{
	if (raised)
		raised = setrlimit(RLIMIT_NOFILE, &before) != 0;
}
