// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The plan of --episodes: what went on around a long wait.
 *
 * tp_btf or nothing: where lockline runs at all, the tracepoints of the kernel
 * image are in its BTF, so that a raw tracepoint is never the better source.
 */
#include "kernel/plan_context.h"

static enum probe_state check(struct finding *finding, __u32 mask, const char *what, const char *missing)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!(finding->evidence->btf_context & mask))
		return UNAVAILABLE("the kernel has no such tracepoint in BTF%s", missing);
	ON("%s", what);
	return asked(finding, finding->evidence->episodes, "--episodes");
}

enum probe_state check_interrupts(struct finding *finding)
{
	return check(finding, CONTEXT_INTERRUPTS, "of devices, entry and exit", "");
}

enum probe_state check_vectors(struct finding *finding)
{
	return check(finding, CONTEXT_VECTORS_MASK, "timer, reschedule, function calls and irq_work, entry and exit",
		     ": x86 alone has them");
}

enum probe_state check_ipis_received(struct finding *finding)
{
	return check(finding, CONTEXT_IPIS, "entry and exit, with what for", ": arm64 alone has them");
}

enum probe_state check_ipis_sent(struct finding *finding)
{
	return check(finding, 1u << PROBE_IPI_SENT | 1u << PROBE_IPIS_SENT, "to one CPU and to several at once",
		     ": they came with 6.4");
}

enum probe_state check_ipis_raised(struct finding *finding)
{
	return check(finding, finding->evidence->lock.x86 ? 0 : 1u << PROBE_IPIS_RAISED, "to any number of CPUs",
		     ": arm64 alone has it");
}

enum probe_state check_softirqs(struct finding *finding)
{
	return check(finding, CONTEXT_SOFTIRQS, "entry and exit", "");
}

enum probe_state check_switches(struct finding *finding)
{
	return check(finding, 1u << PROBE_SWITCH, "each one", "");
}

enum probe_state check_wake_ups(struct finding *finding)
{
	return check(finding, CONTEXT_WAKES, "who wakes whom, and to which CPU", "");
}

enum probe_state check_wait_task(struct finding *finding)
{
	return check(finding, 1u << PROBE_WAIT_TASK, "each turn of its loop passes it", "");
}

void plan_context(struct plan *plan, struct finding *finding)
{
	__u32 masks[] = {CONTEXT_INTERRUPTS, CONTEXT_VECTORS_MASK, CONTEXT_IPIS,  CONTEXT_IPIS_SENT_MASK,
			 CONTEXT_SOFTIRQS,   1u << PROBE_SWITCH,   CONTEXT_WAKES, 1u << PROBE_WAIT_TASK};

	if (check_waits(finding) != PROBE_ON || !finding->evidence->episodes)
		return;
	for (int i = 0; i < (int)(sizeof(masks) / sizeof(masks[0])); i++)
		plan->context |= finding->evidence->btf_context & masks[i];
	/* Some x86 kernels have arm64's too, and never pass them. */
	if (plan->context & CONTEXT_VECTORS_MASK)
		plan->context &= ~(CONTEXT_IPIS | 1u << PROBE_IPIS_RAISED);
	/* Where the kernel has both an IPI passes both. */
	if (plan->context & 1u << PROBE_IPIS_SENT)
		plan->context &= ~(1u << PROBE_IPIS_RAISED);
}
