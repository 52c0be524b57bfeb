// SPDX-License-Identifier: GPL-2.0-or-later
/* The plan of what stands beside the lock waits, each by an option of its own. */
#include "plan_checks.h"

enum probe_state check_futex(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_futex)
		return UNAVAILABLE("the kernel's BTF lacks the tracepoints sys_enter, sys_exit, sched_waking or "
				   "sched_switch (CONFIG_HAVE_SYSCALL_TRACEPOINTS)");
	ON("every system call passes a probe, futex calls are followed");
	return asked(finding, finding->evidence->futex, "--futex");
}

void plan_signals(struct plan *plan, struct finding *finding)
{
	plan->futex = check_futex(finding) == PROBE_ON;
}
