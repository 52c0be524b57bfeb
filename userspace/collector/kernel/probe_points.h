/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions and tracepoints of the kernel that lockline probes, by the kernel's own names. */
#ifndef LOCKLINE_PROBE_POINTS_H
#define LOCKLINE_PROBE_POINTS_H

#include <linux/types.h>

/* What is probed for --holders and --holds, as far as the kernel has it in BTF. */
enum release_function {
	UNLOCK_SPIN,
	UNLOCK_SPIN_IRQRESTORE,
	UNLOCK_SPIN_IRQ,
	UNLOCK_SPIN_BH,
	UNLOCK_READ,
	UNLOCK_READ_IRQRESTORE,
	UNLOCK_READ_IRQ,
	UNLOCK_READ_BH,
	UNLOCK_WRITE,
	UNLOCK_WRITE_IRQRESTORE,
	UNLOCK_WRITE_IRQ,
	UNLOCK_WRITE_BH,
	UNLOCK_MUTEX,
	UNLOCK_RWSEM_WRITE,
	UNLOCK_RWSEM_READ,
	UNLOCK_RT_SPIN,
	LOCK_SPIN,
	LOCK_SPIN_IRQSAVE,
	LOCK_SPIN_IRQ,
	LOCK_SPIN_BH,
	LOCK_SPIN_TRY,
	RELEASE_FUNCTIONS
};

#define SPIN_UNLOCKS ((1u << (UNLOCK_SPIN_BH + 1)) - 1)
#define RW_UNLOCKS   (((1u << (UNLOCK_WRITE_BH + 1)) - 1) & ~SPIN_UNLOCKS)
#define SLEEPING_UNLOCKS \
	(1u << UNLOCK_MUTEX | 1u << UNLOCK_RWSEM_WRITE | 1u << UNLOCK_RWSEM_READ | 1u << UNLOCK_RT_SPIN)
#define SPIN_LOCKS (((1u << RELEASE_FUNCTIONS) - 1) & ~((1u << LOCK_SPIN) - 1))

extern const char *const release_function_names[RELEASE_FUNCTIONS];

/* Tracepoints of --episodes. */
enum context_probe {
	PROBE_INTERRUPT_ENTRY,
	PROBE_INTERRUPT_EXIT,
	PROBE_LOCAL_TIMER_ENTRY,
	PROBE_LOCAL_TIMER_EXIT,
	PROBE_RESCHEDULE_ENTRY,
	PROBE_RESCHEDULE_EXIT,
	PROBE_CALL_FUNCTION_ENTRY,
	PROBE_CALL_FUNCTION_EXIT,
	PROBE_CALL_FUNCTION_SINGLE_ENTRY,
	PROBE_CALL_FUNCTION_SINGLE_EXIT,
	PROBE_IRQ_WORK_ENTRY,
	PROBE_IRQ_WORK_EXIT,
	PROBE_IPI_ENTRY,
	PROBE_IPI_EXIT,
	PROBE_IPI_SENT,
	PROBE_IPIS_SENT,
	PROBE_IPIS_RAISED,
	PROBE_SOFTIRQ_ENTRY,
	PROBE_SOFTIRQ_EXIT,
	PROBE_SWITCH,
	PROBE_WAKING,
	PROBE_WAKEUP,
	PROBE_WAIT_TASK,
	CONTEXT_PROBES
};

#define CONTEXT_INTERRUPTS     (1u << PROBE_INTERRUPT_ENTRY | 1u << PROBE_INTERRUPT_EXIT)
#define CONTEXT_VECTORS_MASK   (((1u << (PROBE_IRQ_WORK_EXIT + 1)) - 1) & ~((1u << PROBE_LOCAL_TIMER_ENTRY) - 1))
#define CONTEXT_IPIS           (1u << PROBE_IPI_ENTRY | 1u << PROBE_IPI_EXIT)
#define CONTEXT_IPIS_SENT_MASK (1u << PROBE_IPI_SENT | 1u << PROBE_IPIS_SENT | 1u << PROBE_IPIS_RAISED)
#define CONTEXT_SOFTIRQS       (1u << PROBE_SOFTIRQ_ENTRY | 1u << PROBE_SOFTIRQ_EXIT)
#define CONTEXT_WAKES          (1u << PROBE_WAKING | 1u << PROBE_WAKEUP)

extern const char *const context_tracepoints[CONTEXT_PROBES];

/*
 * The system calls of --futex, as functions of their own.  Of 32-bit tasks those that the kernel has apart: arm64 has
 * one of them, x86 all but the last.
 */
enum futex_function {
	FUTEX_FUNCTION,
	FUTEX_WAITV_FUNCTION,
	FUTEX_WAKE_FUNCTION,
	FUTEX_WAIT_FUNCTION,
	FUTEX_REQUEUE_FUNCTION,
	FUTEX_TIME32_FUNCTION_32,
	FUTEX_FUNCTION_32,
	FUTEX_WAITV_FUNCTION_32,
	FUTEX_WAKE_FUNCTION_32,
	FUTEX_WAIT_FUNCTION_32,
	FUTEX_REQUEUE_FUNCTION_32,
	YIELD_FUNCTION,   /* of 32-bit tasks too on x86-64 */
	RESTART_FUNCTION, /* goes on with a wait that a signal interrupted */
	FUTEX_FUNCTIONS
};

extern const char *const futex_function_names[FUTEX_FUNCTIONS]; /* NULL: not on this architecture */

/*
 * What passes lock:contended_release at the unlock of a queued spinlock, or rwlock: the first came with 7.3 and is built
 * with CONFIG_QUEUED_SPINLOCKS_TRACE_CONTENDED_RELEASE alone, the second was proposed beside it.
 */
#define SPIN_RELEASE "queued_spin_release_traced"
#define RW_RELEASE   "queued_write_unlock_traced"

/* Of writers. */
#define RWSEM_SLOW_PATH  "rwsem_down_write_slowpath"
#define PERCPU_SLOW_PATH "percpu_down_write"

#define WAIT_INACTIVE          "wait_task_inactive"
#define PTRACE_ATTACH_FUNCTION "ptrace_attach"

/* What reads a clocksource that all CPUs share; NULL: none such. */
const char *clock_read_function(const char *clocksource);

#endif /* LOCKLINE_PROBE_POINTS_H */
