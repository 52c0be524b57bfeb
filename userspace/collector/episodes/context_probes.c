// SPDX-License-Identifier: GPL-2.0-or-later
/* The programs of --episodes: which tracepoint each of them probes. */
#include <bpf/libbpf.h>

#include "lockline.skel.h"
#include "episodes/context_probes.h"

static enum signal signal_of(enum context_probe probe)
{
	__u32 bit = 1u << probe;

	return bit & CONTEXT_INTERRUPTS                      ? SIGNAL_INTERRUPTS
	       : bit & (CONTEXT_VECTORS_MASK | CONTEXT_IPIS) ? SIGNAL_CPU_INTERRUPTS
	       : bit & CONTEXT_SOFTIRQS                      ? SIGNAL_SOFTIRQS
	       : bit & CONTEXT_WAKES                         ? SIGNAL_WAKE_UPS
	       : bit & CONTEXT_IPIS_SENT_MASK                ? SIGNAL_IPIS_SENT
	       : probe == PROBE_SWITCH                       ? SIGNAL_CONTEXT_SWITCHES
							     : SIGNAL_WAIT_TASK_TURNS;
}

int context_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
	struct bpf_program *const programs[CONTEXT_PROBES] = {
		[PROBE_INTERRUPT_ENTRY] = bpf->progs.interrupt_enter,
		[PROBE_INTERRUPT_EXIT] = bpf->progs.interrupt_leave,
		[PROBE_LOCAL_TIMER_ENTRY] = bpf->progs.local_timer_enter,
		[PROBE_LOCAL_TIMER_EXIT] = bpf->progs.local_timer_leave,
		[PROBE_RESCHEDULE_ENTRY] = bpf->progs.reschedule_enter,
		[PROBE_RESCHEDULE_EXIT] = bpf->progs.reschedule_leave,
		[PROBE_CALL_FUNCTION_ENTRY] = bpf->progs.call_function_enter,
		[PROBE_CALL_FUNCTION_EXIT] = bpf->progs.call_function_leave,
		[PROBE_CALL_FUNCTION_SINGLE_ENTRY] = bpf->progs.call_function_single_enter,
		[PROBE_CALL_FUNCTION_SINGLE_EXIT] = bpf->progs.call_function_single_leave,
		[PROBE_IRQ_WORK_ENTRY] = bpf->progs.irq_work_enter,
		[PROBE_IRQ_WORK_EXIT] = bpf->progs.irq_work_leave,
		[PROBE_IPI_ENTRY] = bpf->progs.ipi_enter,
		[PROBE_IPI_EXIT] = bpf->progs.ipi_leave,
		[PROBE_IPI_SENT] = bpf->progs.ipi_sent,
		[PROBE_IPIS_SENT] = bpf->progs.ipis_sent,
		[PROBE_IPIS_RAISED] = bpf->progs.ipis_raised,
		[PROBE_SOFTIRQ_ENTRY] = bpf->progs.softirq_enter,
		[PROBE_SOFTIRQ_EXIT] = bpf->progs.softirq_leave,
		[PROBE_SWITCH] = bpf->progs.context_switch,
		[PROBE_WAKING] = bpf->progs.task_waking,
		[PROBE_WAKEUP] = bpf->progs.task_wakeup,
		[PROBE_WAIT_TASK] = bpf->progs.wait_task,
	};

	for (int probe = 0; probe < CONTEXT_PROBES; probe++)
		choices[count++] = (struct choice){programs[probe], plan->context >> probe & 1, signal_of(probe), NULL};
	return count;
}
