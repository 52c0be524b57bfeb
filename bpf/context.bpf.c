// SPDX-License-Identifier: GPL-2.0
/* What goes on around a long wait: interrupts, IPIs, softirqs, context switches, wake-ups. */
#include "context.bpf.h"
#include <bpf/bpf_tracing.h>

SEC("?tp_btf/irq_handler_entry")
int BPF_PROG(interrupt_enter, int irq, struct irqaction *action)
{
	record_context(CONTEXT_INTERRUPT_ENTRY, irq, NULL, BPF_CORE_READ(action, name));
	return 0;
}

SEC("?tp_btf/irq_handler_exit")
int BPF_PROG(interrupt_leave, int irq, struct irqaction *action, int handled)
{
	record_context(CONTEXT_INTERRUPT_EXIT, irq, NULL, NULL);
	return 0;
}

/* x86: interrupts of the CPU itself pass no irq_handler_entry. */
#define VECTOR(tracepoint, vector)                                        \
	SEC("?tp_btf/" #tracepoint "_entry")                              \
	int tracepoint##_enter(void *ctx)                                 \
	{                                                                 \
		record_context(CONTEXT_VECTOR_ENTRY, vector, NULL, NULL); \
		return 0;                                                 \
	}                                                                 \
	SEC("?tp_btf/" #tracepoint "_exit")                               \
	int tracepoint##_leave(void *ctx)                                 \
	{                                                                 \
		record_context(CONTEXT_VECTOR_EXIT, vector, NULL, NULL);  \
		return 0;                                                 \
	}

VECTOR(local_timer, VECTOR_LOCAL_TIMER)
VECTOR(reschedule, VECTOR_RESCHEDULE)
VECTOR(call_function, VECTOR_CALL_FUNCTION)
VECTOR(call_function_single, VECTOR_CALL_FUNCTION_SINGLE)
VECTOR(irq_work, VECTOR_IRQ_WORK)

/* arm64: its timer is an interrupt like any, its IPIs are not. */
SEC("?tp_btf/ipi_entry")
int BPF_PROG(ipi_enter, const char *reason)
{
	record_context(CONTEXT_IPI_ENTRY, 0, NULL, reason);
	return 0;
}

SEC("?tp_btf/ipi_exit")
int BPF_PROG(ipi_leave, const char *reason)
{
	record_context(CONTEXT_IPI_EXIT, 0, NULL, NULL);
	return 0;
}

SEC("?tp_btf/ipi_send_cpu")
int BPF_PROG(ipi_sent, unsigned int cpu)
{
	record_context(CONTEXT_IPI_SENT, cpu, NULL, NULL);
	return 0;
}

/* Since 6.4. */
SEC("?tp_btf/ipi_send_cpumask")
int BPF_PROG(ipis_sent, const struct cpumask *mask)
{
	record_ipis(mask);
	return 0;
}

/* arm64, before that. */
SEC("?tp_btf/ipi_raise")
int BPF_PROG(ipis_raised, const struct cpumask *mask)
{
	record_ipis(mask);
	return 0;
}

SEC("?tp_btf/softirq_entry")
int BPF_PROG(softirq_enter, unsigned int which)
{
	record_context(CONTEXT_SOFTIRQ_ENTRY, which, NULL, NULL);
	return 0;
}

SEC("?tp_btf/softirq_exit")
int BPF_PROG(softirq_leave, unsigned int which)
{
	record_context(CONTEXT_SOFTIRQ_EXIT, which, NULL, NULL);
	return 0;
}

/* prev_state is the last argument since 5.18 (9c2136be0878), older than the tracepoints of waits. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(context_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	bool ready = preempt || !prev_state;

	record_context(ready && task_throttled(prev) ? CONTEXT_SWITCH_THROTTLED : CONTEXT_SWITCH,
		       ready ? 0 : prev_state, next, NULL);
	return 0;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(task_waking, struct task_struct *task)
{
	record_context(CONTEXT_WAKING, 0, task, NULL);
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int BPF_PROG(task_wakeup, struct task_struct *task)
{
	/* Where this runs is where it was woken, not always where it is to run. */
	record_context(task_throttled(task) ? CONTEXT_WAKEUP_THROTTLED : CONTEXT_WAKEUP,
		       bpf_core_field_exists(task->wake_cpu) ? BPF_CORE_READ(task, wake_cpu) : ~0u, task, NULL);
	return 0;
}

SEC("?tp_btf/sched_wait_task")
int BPF_PROG(wait_task, struct task_struct *task)
{
	record_context(CONTEXT_WAIT_TASK, 0, task, NULL);
	return 0;
}
