// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions that are no call site: they wait for locks, or carry the probe that saw the wait. */
#include <string.h>

#include "names/lock_functions.h"

static const char *const prefixes[] = {
	/* the probe itself */
	"__traceiter_", "__bpf_trace_", "bpf_trace_run", "bpf_prog_", "__bpf_prog_", "bpf_trampoline_",
	"ftrace_trampoline", "trace_contention_", "bpf_get_stack", "__bpf_get_stack", "get_perf_callchain",
	"perf_callchain_kernel", "perf_trace_contention_",
	/* spinlocks and rwlocks */
	"_raw_spin_", "_raw_read_", "_raw_write_", "__raw_spin_", "__raw_read_", "__raw_write_", "do_raw_",
	"raw_spin_lock_irqsave_", "spin_lock_irqsave_", "queued_spin_", "queued_read_", "queued_write_",
	"native_queued_spin_", "__native_queued_spin_", "__pv_queued_spin_", "pv_queued_spin_",
	"__raw_callee_save___pv_queued_", "__raw_callee_save___native_queued_", "mcs_spin_", "rust_helper_spin_",
	"pv_wait", "pv_kick", "kvm_wait", "kvm_kick_cpu", "xen_qlock_", "hv_qlock_", "resilient_", "rqspinlock_",
	"bpf_spin_", "__bpf_spin_", "bpf_res_spin_", "osq_", "lockref_", "_atomic_dec_and_", "atomic_dec_and_",
	"refcount_dec_and_",
	/* mutexes and semaphores */
	"mutex_lock", "mutex_unlock", "mutex_trylock", "mutex_spin_on_owner", "mutex_optimistic_spin", "__mutex_",
	"_mutex_", "rust_helper_mutex_", "ww_mutex_", "__ww_mutex_", "rwsem_", "__rwsem_", "down_", "__down", "___down",
	"up_read", "up_write", "__up_read", "__up_write", "downgrade_write", "ldsem_", "__ldsem_", "percpu_down_",
	"percpu_up_", "__percpu_down_", "__percpu_up_", "percpu_rwsem_", "__percpu_rwsem_",
	/* wait queues: the lock is that of the caller's queue */
	"__wake_up", "swake_up_", "__swait_", "prepare_to_wait", "prepare_to_swait", "add_wait_queue",
	"remove_wait_queue", "finish_wait", "finish_swait", "wait_for_completion", "autoremove_wake_function",
	/* PREEMPT_RT */
	"rt_mutex_", "__rt_mutex_", "rtlock_", "__rtlock_", "rt_spin_", "__rt_spin_", "rt_read_", "rt_write_",
	"rwbase_", "__rwbase_", "task_blocks_on_rt_mutex", "try_to_take_rt_mutex", "__try_to_take_rt_mutex",
	"mark_wakeup_next_waiter", "__ww_rt_mutex_",
	/* the scheduler, below a sleeping wait */
	"__schedule", "preempt_schedule", "io_schedule", "schedule_timeout", "schedule_hrtimeout", "schedule_preempt_",
	"schedule_rtlock"};

/* Thin wrappers around one lock, whose callers tell more, and names that are a prefix of others. */
static const char *const exact[] = {"down",
				    "complete",
				    "complete_all",
				    "complete_with_flags",
				    "up",
				    "__up",
				    "__up_console_sem",
				    "schedule",
				    "raw_spin_rq_lock_nested",
				    "_raw_spin_rq_lock_irqsave",
				    "raw_spin_rq_trylock",
				    "raw_spin_rq_unlock",
				    "task_rq_lock",
				    "__task_rq_lock",
				    "double_rq_lock",
				    "lock_timer_base",
				    "lock_hrtimer_base",
				    "__lock_task_sighand",
				    "lock_task_sighand",
				    "fdget_pos",
				    "__fdget_pos",
				    "__f_unlock_pos"};

bool symbol_is_lock_internal(const char *name)
{
	/* Without what the compiler appends, such as .isra.0. */
	const size_t length = strcspn(name, ".");

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	for (size_t i = 0; i < sizeof(exact) / sizeof(*exact); i++)
		if (!strncmp(name, exact[i], length) && !exact[i][length])
			return true;
	return false;
}
