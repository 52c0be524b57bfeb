/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The slow path of queued spinlocks, entry to exit: also the waits that the
 * tracepoints cannot see, of the first waiter (pending bit) and of test-and-set.
 *
 * The targets are set at load: with PARAVIRT_SPINLOCKS both the native and the
 * paravirtual function exist and one of them is called; else there is
 * queued_spin_lock_slowpath() alone.  void (struct qspinlock *, u32), 5.10 to 7.2.
 * Part of contention.bpf.c, for what both call (see there).
 */
#ifndef SPIN_BPF_H
#define SPIN_BPF_H

#include "wait.bpf.h"
#include <bpf/bpf_tracing.h>

SEC("?fentry/native_queued_spin_lock_slowpath")
int spin_enter(void *ctx)
{
	enter_slow_path(ctx, function_lock(ctx), KIND_SPINLOCK);
	return 0;
}

SEC("?fexit/native_queued_spin_lock_slowpath")
int spin_leave(void *ctx)
{
	leave_slow_path(ctx, function_lock(ctx));
	return 0;
}

SEC("?fentry/__pv_queued_spin_lock_slowpath")
int paravirt_spin_enter(void *ctx)
{
	enter_slow_path(ctx, function_lock(ctx), KIND_SPINLOCK);
	return 0;
}

SEC("?fexit/__pv_queued_spin_lock_slowpath")
int paravirt_spin_leave(void *ctx)
{
	leave_slow_path(ctx, function_lock(ctx));
	return 0;
}

/* A reader in interrupt context spins before the tracepoint; other readers pass it, inside. */
SEC("?fentry/queued_read_lock_slowpath")
int read_enter(void *ctx)
{
	enter_slow_path(ctx, function_lock(ctx), KIND_RWLOCK_READ);
	return 0;
}

SEC("?fexit/queued_read_lock_slowpath")
int read_leave(void *ctx)
{
	leave_slow_path(ctx, function_lock(ctx));
	return 0;
}

/* Where fentry is not available (arm64 before 6.4, a kernel without function tracing). */
SEC("?kprobe")
int spin_kprobe_enter(struct pt_regs *ctx)
{
	enter_slow_path(ctx, PT_REGS_PARM1(ctx), KIND_SPINLOCK);
	return 0;
}

SEC("?kretprobe")
int spin_kprobe_leave(struct pt_regs *ctx)
{
	leave_slow_path(ctx, 0);
	return 0;
}

#endif /* SPIN_BPF_H */
