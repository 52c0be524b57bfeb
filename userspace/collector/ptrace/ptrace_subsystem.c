// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "lockline.skel.h"
#include "probes/probes.h"
#include "ptrace/ptrace_subsystem.h"
#include "ptrace/ptrace_waits.h"

/* Exits before entries: a call whose end was not seen would keep its slot. */
static int choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
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
	};

	memcpy(choices + count, table, sizeof(table));
	return count + sizeof(table) / sizeof(table[0]);
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	return ptrace_waits_resize(bpf, ground->sizing->cpus, ground->plan->inactive_turns);
}

static int open_waits(struct ground *ground, void **state)
{
	if (!ground->plan->inactive_turns)
		return 0;
	return ptrace_waits_open((struct ptrace_waits **)state, ground->probes->bpf, ground->sizing->cpus,
				 ground->recording);
}

static int tell(struct ground *ground, void **state)
{
	if (ground->options->ptrace)
		plan_tell_missing(ground->plan, SIGNAL_TRACERS_ATTACHING);
	return 0;
}

static int flush(void *state, struct ground *ground)
{
	return ptrace_waits_flush(state);
}

static void close_waits(void *state)
{
	ptrace_waits_close(state);
}

const struct subsystem ptrace_subsystem = {
	.name = "ptrace",
	.choices = choices,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_waits, [STAGE_ATTACHED] = tell},
	.at = {[MOMENT_FLUSH] = flush},
	.close = close_waits,
};
