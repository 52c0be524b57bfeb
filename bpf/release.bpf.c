// SPDX-License-Identifier: GPL-2.0
/* The probes of the unlock side (record --holders). */
#include "release.bpf.h"
#include <bpf/bpf_tracing.h>

/* Low bits of mutex.owner and rt_mutex_base.owner, and of rw_semaphore.count: there are waiters; 5.10 to 7.2. */
#define MUTEX_WAITERS   1
#define RTMUTEX_WAITERS 1
#define RWSEM_WAITERS   2

#define SPIN_UNLOCK(name, function)                                                               \
	SEC("?fentry/" #function)                                                                 \
	int BPF_PROG(name, struct raw_spinlock *lock)                                             \
	{                                                                                         \
		spin_unlocks(ctx, function_lock(ctx), lock->raw_lock.val.counter, KIND_SPINLOCK); \
		return 0;                                                                         \
	}

/* The head of the queue holds wait_lock for as long as it waits. */
#define RW_UNLOCK(name, function, kind)                                \
	SEC("?fentry/" #function)                                      \
	int BPF_PROG(name, rwlock_t *lock)                             \
	{                                                              \
		if (lock->raw_lock.wait_lock.val.counter)              \
			record_release(ctx, function_lock(ctx), kind); \
		return 0;                                              \
	}

SPIN_UNLOCK(spin_unlock, _raw_spin_unlock)
SPIN_UNLOCK(spin_unlock_irqrestore, _raw_spin_unlock_irqrestore)
SPIN_UNLOCK(spin_unlock_irq, _raw_spin_unlock_irq)
SPIN_UNLOCK(spin_unlock_bh, _raw_spin_unlock_bh)
RW_UNLOCK(read_unlock, _raw_read_unlock, KIND_RWLOCK_READ)
RW_UNLOCK(read_unlock_irqrestore, _raw_read_unlock_irqrestore, KIND_RWLOCK_READ)
RW_UNLOCK(read_unlock_irq, _raw_read_unlock_irq, KIND_RWLOCK_READ)
RW_UNLOCK(read_unlock_bh, _raw_read_unlock_bh, KIND_RWLOCK_READ)
RW_UNLOCK(write_unlock, _raw_write_unlock, KIND_RWLOCK_WRITE)
RW_UNLOCK(write_unlock_irqrestore, _raw_write_unlock_irqrestore, KIND_RWLOCK_WRITE)
RW_UNLOCK(write_unlock_irq, _raw_write_unlock_irq, KIND_RWLOCK_WRITE)
RW_UNLOCK(write_unlock_bh, _raw_write_unlock_bh, KIND_RWLOCK_WRITE)

/* Where the kernel has no fentry; one program for all four functions. */
SEC("?kprobe")
int spin_kprobe_unlock(struct pt_regs *ctx)
{
	__u64 lock = PT_REGS_PARM1(ctx);
	__u32 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)lock);
	spin_unlocks(ctx, lock, word, KIND_SPINLOCK);
	return 0;
}

/* The holds of focused spinlocks (--holds). */
#define SPIN_LOCK(name, function)               \
	SEC("?fexit/" #function)                \
	int name(void *ctx)                     \
	{                                       \
		begin_hold(function_lock(ctx)); \
		return 0;                       \
	}

SPIN_LOCK(spin_lock, _raw_spin_lock)
SPIN_LOCK(spin_lock_irqsave, _raw_spin_lock_irqsave)
SPIN_LOCK(spin_lock_irq, _raw_spin_lock_irq)
SPIN_LOCK(spin_lock_bh, _raw_spin_lock_bh)

SEC("?fexit/_raw_spin_trylock")
int BPF_PROG(spin_trylock, struct raw_spinlock *lock, int got)
{
	if (got)
		begin_hold(function_lock(ctx));
	return 0;
}

/* Sleeping locks: mutex, rwsem, percpu-rwsem, semaphore, rtmutex; in the releasing task, if there are waiters.  7.2. */
SEC("?tp_btf/contended_release")
int contended_release(__u64 *ctx)
{
	record_release(ctx, ctx[0], KIND_UNKNOWN);
	return 0;
}

/* Read as bytes: the verifier takes the owner for a pointer, and allows no arithmetic on it. */
static __always_inline __u64 rtmutex_waiters(struct rt_mutex_base *lock)
{
	return (__u64)BPF_CORE_READ(lock, owner) & RTMUTEX_WAITERS;
}

/* The same before 7.2, at the functions that every release passes. */
SEC("?fentry/mutex_unlock")
int BPF_PROG(mutex_unlocks, struct mutex *lock)
{
	__u64 owner;

	if (bpf_core_field_exists(lock->owner))
		owner = lock->owner.counter & MUTEX_WAITERS;
	else
		owner = rtmutex_waiters(&lock->rtmutex);
	if (owner)
		record_release(ctx, function_lock(ctx), KIND_UNKNOWN);
	return 0;
}

static __always_inline void rwsem_releases(void *ctx, struct rw_semaphore *lock)
{
	__u64 waiters;

	if (bpf_core_field_exists(lock->count))
		waiters = lock->count.counter & RWSEM_WAITERS;
	else
		waiters = rtmutex_waiters(&lock->rwbase.rtmutex);
	if (waiters)
		record_release(ctx, function_lock(ctx), KIND_UNKNOWN);
}

SEC("?fentry/up_write")
int BPF_PROG(rwsem_write_unlock, struct rw_semaphore *lock)
{
	rwsem_releases(ctx, lock);
	return 0;
}

SEC("?fentry/up_read")
int BPF_PROG(rwsem_read_unlock, struct rw_semaphore *lock)
{
	rwsem_releases(ctx, lock);
	return 0;
}

/* PREEMPT_RT: spinlock_t. */
SEC("?fentry/rt_spin_unlock")
int BPF_PROG(rt_spin_unlocks, struct spinlock *lock)
{
	if (rtmutex_waiters(&lock->lock))
		record_release(ctx, function_lock(ctx), KIND_UNKNOWN);
	return 0;
}
