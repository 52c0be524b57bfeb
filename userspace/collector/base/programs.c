// SPDX-License-Identifier: GPL-2.0-or-later
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/membarrier.h>

#include "base/programs.h"

/* BPF programs run inside read sections of RCU, and MEMBARRIER_CMD_GLOBAL waits for those. */
bool programs_wait(void)
{
	return !syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

bool programs_can_be_waited_for(void)
{
	long commands = syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	return commands > 0 && commands & MEMBARRIER_CMD_GLOBAL && sysconf(_SC_NPROCESSORS_ONLN) > 1;
}
