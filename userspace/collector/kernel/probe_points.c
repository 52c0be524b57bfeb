// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "kernel/probe_points.h"

const char *const release_function_names[RELEASE_FUNCTIONS] = {
	[UNLOCK_SPIN] = "_raw_spin_unlock",
	[UNLOCK_SPIN_IRQRESTORE] = "_raw_spin_unlock_irqrestore",
	[UNLOCK_SPIN_IRQ] = "_raw_spin_unlock_irq",
	[UNLOCK_SPIN_BH] = "_raw_spin_unlock_bh",
	[UNLOCK_READ] = "_raw_read_unlock",
	[UNLOCK_READ_IRQRESTORE] = "_raw_read_unlock_irqrestore",
	[UNLOCK_READ_IRQ] = "_raw_read_unlock_irq",
	[UNLOCK_READ_BH] = "_raw_read_unlock_bh",
	[UNLOCK_WRITE] = "_raw_write_unlock",
	[UNLOCK_WRITE_IRQRESTORE] = "_raw_write_unlock_irqrestore",
	[UNLOCK_WRITE_IRQ] = "_raw_write_unlock_irq",
	[UNLOCK_WRITE_BH] = "_raw_write_unlock_bh",
	[UNLOCK_MUTEX] = "mutex_unlock",
	[UNLOCK_RWSEM_WRITE] = "up_write",
	[UNLOCK_RWSEM_READ] = "up_read",
	[UNLOCK_RT_SPIN] = "rt_spin_unlock",
	[LOCK_SPIN] = "_raw_spin_lock",
	[LOCK_SPIN_IRQSAVE] = "_raw_spin_lock_irqsave",
	[LOCK_SPIN_IRQ] = "_raw_spin_lock_irq",
	[LOCK_SPIN_BH] = "_raw_spin_lock_bh",
	[LOCK_SPIN_TRY] = "_raw_spin_trylock",
};

const char *const context_tracepoints[CONTEXT_PROBES] = {
	[PROBE_INTERRUPT_ENTRY] = "irq_handler_entry",
	[PROBE_INTERRUPT_EXIT] = "irq_handler_exit",
	[PROBE_LOCAL_TIMER_ENTRY] = "local_timer_entry",
	[PROBE_LOCAL_TIMER_EXIT] = "local_timer_exit",
	[PROBE_RESCHEDULE_ENTRY] = "reschedule_entry",
	[PROBE_RESCHEDULE_EXIT] = "reschedule_exit",
	[PROBE_CALL_FUNCTION_ENTRY] = "call_function_entry",
	[PROBE_CALL_FUNCTION_EXIT] = "call_function_exit",
	[PROBE_CALL_FUNCTION_SINGLE_ENTRY] = "call_function_single_entry",
	[PROBE_CALL_FUNCTION_SINGLE_EXIT] = "call_function_single_exit",
	[PROBE_IRQ_WORK_ENTRY] = "irq_work_entry",
	[PROBE_IRQ_WORK_EXIT] = "irq_work_exit",
	[PROBE_IPI_ENTRY] = "ipi_entry",
	[PROBE_IPI_EXIT] = "ipi_exit",
	[PROBE_IPI_SENT] = "ipi_send_cpu",
	[PROBE_IPIS_SENT] = "ipi_send_cpumask",
	[PROBE_IPIS_RAISED] = "ipi_raise",
	[PROBE_SOFTIRQ_ENTRY] = "softirq_entry",
	[PROBE_SOFTIRQ_EXIT] = "softirq_exit",
	[PROBE_SWITCH] = "sched_switch",
	[PROBE_WAKING] = "sched_waking",
	[PROBE_WAKEUP] = "sched_wakeup",
	[PROBE_WAIT_TASK] = "sched_wait_task",
};

const char *const futex_function_names[FUTEX_FUNCTIONS] = {
#if defined(__x86_64__)
	[FUTEX_FUNCTION] = "__x64_sys_futex",
	[FUTEX_WAITV_FUNCTION] = "__x64_sys_futex_waitv",
	[FUTEX_WAKE_FUNCTION] = "__x64_sys_futex_wake",
	[FUTEX_WAIT_FUNCTION] = "__x64_sys_futex_wait",
	[FUTEX_REQUEUE_FUNCTION] = "__x64_sys_futex_requeue",
	[FUTEX_TIME32_FUNCTION_32] = "__ia32_sys_futex_time32",
	[FUTEX_FUNCTION_32] = "__ia32_sys_futex",
	[FUTEX_WAITV_FUNCTION_32] = "__ia32_sys_futex_waitv",
	[FUTEX_WAKE_FUNCTION_32] = "__ia32_sys_futex_wake",
	[FUTEX_WAIT_FUNCTION_32] = "__ia32_sys_futex_wait",
	[FUTEX_REQUEUE_FUNCTION_32] = "__ia32_sys_futex_requeue",
	[YIELD_FUNCTION] = "__do_sys_sched_yield",
	[RESTART_FUNCTION] = "__do_sys_restart_syscall",
#else
	[FUTEX_FUNCTION] = "__arm64_sys_futex",
	[FUTEX_WAITV_FUNCTION] = "__arm64_sys_futex_waitv",
	[FUTEX_WAKE_FUNCTION] = "__arm64_sys_futex_wake",
	[FUTEX_WAIT_FUNCTION] = "__arm64_sys_futex_wait",
	[FUTEX_REQUEUE_FUNCTION] = "__arm64_sys_futex_requeue",
	[FUTEX_TIME32_FUNCTION_32] = "__arm64_sys_futex_time32",
	[YIELD_FUNCTION] = "__arm64_sys_sched_yield",
	[RESTART_FUNCTION] = "__arm64_sys_restart_syscall",
#endif
};

const char *clock_read_function(const char *clocksource)
{
	return !strcmp(clocksource, "hpet") ? "read_hpet" : !strcmp(clocksource, "acpi_pm") ? "acpi_pm_read" : NULL;
}
