/* SPDX-License-Identifier: GPL-2.0 */
/* One helper per kernel difference, with the version (and commit) that made it. */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/*
 * Since 7.x tracepoint programs run preemptible (probes under SRCU), and a
 * preempted program keeps every other task's end on that CPU out.  The kfuncs
 * came with 6.10 (fc7566ad0a82); before them tracepoints are not preemptible.
 *
 * Programs at fentry and fexit are preemptible on every kernel, and before
 * 6.10 nothing here can change that: those around rwsem_down_write_slowpath() and
 * percpu_down_write() may be preempted.  A program stays on its CPU all the same,
 * and what others write meanwhile is written by atomic operations.  The runs that
 * the kernel skips meanwhile are counted (recursion_misses), their waits are lost.
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/*
 * Of a function of whole numbers and structures: the verifier walks it once, not at each call.  From 6.10 to 6.14
 * (81f1d7a583fa) none may be called behind stay_on_cpu().
 */
#define VERIFIED_ONCE __weak __noinline

/*
 * As stay_on_cpu() and leave_cpu(), for the programs of tracepoints: until 6.18 the kernel calls those with preemption
 * off.  The type is of the guard that it has in place of that since.
 */
typedef struct {
} class_srcu_fast_notrace_t;

static __always_inline bool tracepoints_preemptible(void)
{
	return bpf_core_type_exists(class_srcu_fast_notrace_t);
}

static __always_inline void stay_on_cpu(void)
{
	if (bpf_preempt_disable)
		bpf_preempt_disable();
}

static __always_inline void leave_cpu(void)
{
	if (bpf_preempt_enable)
		bpf_preempt_enable();
}

static __always_inline void stay_at_tracepoint(void)
{
	if (tracepoints_preemptible())
		stay_on_cpu();
}

static __always_inline void leave_tracepoint(void)
{
	if (tracepoints_preemptible())
		leave_cpu();
}

/*
 * Whether stay_on_cpu() keeps all other tasks' programs out: then what sleeping waits alone write, which no
 * interrupt does, needs no atomic operation.
 */
static __always_inline bool keeps_cpu(void)
{
	return bpf_preempt_disable && bpf_preempt_enable;
}

/* What was written before is seen by other CPUs no later than this.  x86 orders stores by itself. */
static __always_inline void publish(__u32 *word, __u32 value)
{
#if defined(__TARGET_ARCH_x86)
	barrier();
	*(volatile __u32 *)word = value;
#else
	__sync_lock_test_and_set(word, value);
#endif
}

/*
 * Has an object's line fetched while the clock is read: that waits for the loads before it, and is waited for by those
 * behind it, but a store neither waits nor is waited for.  Nobody reads what it writes.
 */
#define fetch_early(object) (*(volatile __u16 *)&(object)->fetched = 0)

static __always_inline void publish_long(__u64 *word, __u64 value)
{
#if defined(__TARGET_ARCH_x86)
	barrier();
	*(volatile __u64 *)word = value;
	barrier();
#else
	__sync_lock_test_and_set(word, value);
#endif
}

/* Keeps the compiler from making one block of two, so that the verifier drops the one that this kernel never runs. */
#define TOLD_APART asm volatile("r0 = 0" ::: "r0")

/*
 * A number of which the verifier knows nothing any more: it walks what follows once, not for each value that it may
 * have.  by: any number that the verifier does not know.
 */
static __always_inline __u64 unknown(__u64 value, __u64 by)
{
	value ^= by;
	barrier_var(value);
	return value ^ by;
}

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* First argument as a number: the verifier allows no arithmetic on the typed pointer.  Since 5.17. */
static __always_inline __u64 function_lock(void *ctx)
{
	__u64 lock = 0;

	bpf_get_func_arg(ctx, 0, &lock);
	return lock;
}

/*
 * Whether a task that could run may not, because its group's CPU time (cpu.max) or that of all real-time tasks
 * is used up.  Since 6.18 groups stop their tasks one by one on the way to user space, and the
 * task says so; before that a group's queue leaves the CPU with all its tasks, whatever locks of the kernel they
 * hold.  The limit of real-time tasks went with 6.12, but for kernels with CONFIG_RT_GROUP_SCHED.
 */
static __always_inline bool task_throttled(struct task_struct *task)
{
	struct cfs_rq *queue;

	if (!bpf_core_field_exists(task->se.cfs_rq))
		return false;
	queue = task->se.cfs_rq;
	if (task->prio >= 0 && task->prio < 100)
		return bpf_core_field_exists(queue->rq->rt.rt_throttled) && queue->rq->rt.rt_throttled;
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	return bpf_core_field_exists(queue->throttle_count) && queue->throttle_count > 0;
}

#endif /* COMPAT_BPF_H */
