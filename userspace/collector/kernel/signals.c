// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernel/signals.h"

static const struct {
	const char *name;
	const char *lost;
} signals[SIGNALS] = {
	[SIGNAL_LOCK_WAITS] = {"lock waits", "everything: nothing can be recorded"},
	[SIGNAL_SPINLOCK_FIRST_WAITER] =
		{"spinlock first waiter",
		 "waits of the first waiter behind a holder: two contenders alone may show none"},
	[SIGNAL_SPINLOCK_QUEUED_WAITERS] = {"spinlock queued waiters", "waits for spinlocks"},
	[SIGNAL_SLEEPING_LOCKS] = {"mutex, rwsem, semaphore, rtmutex", "waits for sleeping locks"},
	[SIGNAL_RWLOCK_WAITERS] = {"rwlock waiters", "waits for rwlocks"},
	[SIGNAL_RWLOCK_INTERRUPT] = {"rwlock readers in interrupt", "waits of readers in interrupt context"},
	[SIGNAL_BPF_SPINLOCKS] =
		{"BPF's own spinlocks",
		 "waits for the locks of BPF maps and programs, of the first waiter behind a holder above all"},
	[SIGNAL_RWSEM_SPINNING] = {"rwsem writers that win by spinning", "waits of writers that never slept"},
	[SIGNAL_PERCPU_WRITERS] = {"percpu-rwsem writers behind readers",
				   "how long a writer waits for readers and for RCU"},
	[SIGNAL_SPINLOCK_HOLDERS] = {"spinlock holders", "who held the spinlocks and rwlocks that others waited for"},
	[SIGNAL_SLEEPING_HOLDERS] = {"sleeping lock holders",
				     "who held the mutexes, rwsems and other sleeping locks that others waited for"},
	[SIGNAL_HOLD_TIMES] = {"spinlock hold times", "how long spinlocks are held"},
	[SIGNAL_INTERRUPTS] = {"interrupts", "which device's interrupt ended a long wait"},
	[SIGNAL_CPU_INTERRUPTS] = {"interrupts of the CPU itself",
				   "which timer, reschedule or function call ended a long wait"},
	[SIGNAL_IPIS_SENT] = {"IPIs sent", "who interrupted the CPU of a long wait"},
	[SIGNAL_SOFTIRQS] = {"softirqs", "softirqs during a long wait"},
	[SIGNAL_CONTEXT_SWITCHES] = {"context switches",
				     "whether the holder ran, slept or was preempted during a long wait"},
	[SIGNAL_WAKE_UPS] = {"wake-ups", "who woke the waiter and the holder of a long wait"},
	[SIGNAL_WAIT_TASK_TURNS] = {"turns of wait_task_inactive",
				    "how often a tracer looked at its tracee during a long wait"},
	[SIGNAL_TRACERS_WAITING] = {"tracers that wait for tracees",
				    "how long and how often ptrace waits until a tracee is off its CPU"},
	[SIGNAL_TRACERS_ATTACHING] = {"tracers that attach", "how long ptrace takes to attach to a task"},
	[SIGNAL_CLOCK_READS] = {"reads of a shared clock", "how long CPUs wait for the clock device, and who reads it"},
	[SIGNAL_FUTEX_WAITS] = {"futex waits", "waits in user space's locks and condition variables"},
	[SIGNAL_STATIC_NAMES] = {"static lock names", "names of most global locks: those are named by call site"},
	[SIGNAL_PERCPU_NAMES] = {"per-CPU lock names",
				 "names of per-CPU locks, run queues among them: those are named by call site"},
	[SIGNAL_SLAB_NAMES] =
		{"slab lock names",
		 "names of locks in allocated objects other than the waiter's own: those are named by call site"},
	[SIGNAL_OWNER_NAMES] = {"lock names in the waiter's objects",
				"names such as mm_struct.mmap_lock: those locks are named by call site"},
	[SIGNAL_KERNEL_STACKS] = {"kernel stacks", "function names: stacks hold bare addresses"},
	[SIGNAL_USER_STACKS] = {"user stacks", "where in a program the wait was caused"},
	[SIGNAL_PROCESS_FOLLOWING] = {"process following", "children of the chosen processes"},
	[SIGNAL_CGROUP] = {"cgroup of the waiter", "which container or service waited"},
	[SIGNAL_CLOCK] = {"clock", "lengths below a tick (1 to 10 ms)"},
	[SIGNAL_OWN_COST] = {"own cost", "the run time of lockline's programs"},
	[SIGNAL_HITM] = {"memory samples (HITM)", "which cache lines move between CPUs, and who moves them"},
	[SIGNAL_WATCHPOINTS] = {"watchpoints", "every access to one cache line"},
	[SIGNAL_MEMORY_BY_PERF] = {"memory samples",
				   "which cache lines move between CPUs, and who moves them, in this time"},
};

const char *signal_name(enum signal signal)
{
	return signals[signal].name;
}

const char *signal_lost(enum signal signal)
{
	return signals[signal].lost;
}
