// SPDX-License-Identifier: GPL-2.0-or-later
/* The programs of the signals that stand beside the lock waits. */
#include <string.h>

#include "lockline.skel.h"
#include "probes/probes.h"

int signal_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
	const char *clock = plan->clock_kprobe ? NULL : plan->clock_read;
	const char *clock_kprobe = plan->clock_kprobe ? plan->clock_read : NULL;
	/* Exits before entries: a call whose end was not seen would keep its slot. */
	const struct choice table[] = {
		{bpf->progs.inactive_leave, plan->inactive_calls, SIGNAL_TRACERS_WAITING, NULL},
		{bpf->progs.inactive_kprobe_leave, plan->inactive_kprobe, SIGNAL_TRACERS_WAITING, WAIT_INACTIVE},
		{bpf->progs.inactive_turn, plan->inactive_turns, SIGNAL_TRACERS_WAITING, NULL},
		{bpf->progs.inactive_enter, plan->inactive_calls, SIGNAL_TRACERS_WAITING, NULL},
		{bpf->progs.inactive_kprobe_enter, plan->inactive_kprobe, SIGNAL_TRACERS_WAITING, WAIT_INACTIVE},
		{bpf->progs.attach_leave, plan->ptrace_attach, SIGNAL_TRACERS_ATTACHING, NULL},
		{bpf->progs.attach_kprobe_leave, plan->ptrace_attach_kprobe, SIGNAL_TRACERS_ATTACHING,
		 PTRACE_ATTACH_FUNCTION},
		{bpf->progs.attach_enter, plan->ptrace_attach, SIGNAL_TRACERS_ATTACHING, NULL},
		{bpf->progs.attach_kprobe_enter, plan->ptrace_attach_kprobe, SIGNAL_TRACERS_ATTACHING,
		 PTRACE_ATTACH_FUNCTION},
		{bpf->progs.clock_read_leave, clock != NULL, SIGNAL_CLOCK_READS, clock},
		{bpf->progs.clock_kprobe_leave, clock_kprobe != NULL, SIGNAL_CLOCK_READS, clock_kprobe},
		{bpf->progs.clock_read_enter, clock != NULL, SIGNAL_CLOCK_READS, clock},
		{bpf->progs.clock_kprobe_enter, clock_kprobe != NULL, SIGNAL_CLOCK_READS, clock_kprobe},
		{bpf->progs.futex_exit, plan->futex, SIGNAL_FUTEX_WAITS, NULL},
		{bpf->progs.futex_switch, plan->futex, SIGNAL_FUTEX_WAITS, NULL},
		{bpf->progs.futex_waking, plan->futex, SIGNAL_FUTEX_WAITS, NULL},
		{bpf->progs.futex_enter, plan->futex, SIGNAL_FUTEX_WAITS, NULL},
	};
	const int more = sizeof(table) / sizeof(table[0]);

	memcpy(choices + count, table, sizeof(table));
	return count + more;
}
