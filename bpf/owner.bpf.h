/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who holds a sleeping lock when a wait for it begins: its owner field (record
 * --holders).  Spinlocks, semaphores and percpu-rwsems do not say.
 */
#ifndef OWNER_BPF_H
#define OWNER_BPF_H

#include "state.bpf.h"
#include "compat.bpf.h"

/* kernel/locking/mutex.c and rwsem.c, 5.10 to 7.2: flags below the task's address. */
#define OWNER_FLAGS   7ul
#define READERS_OWNED 1ul /* the rest is then the last reader, a hint at most */

static __always_inline struct task_struct *rtmutex_owner(struct rt_mutex_base *lock)
{
	return (void *)((__u64)BPF_CORE_READ(lock, owner) & ~OWNER_FLAGS);
}

/* ~0: readers; NULL: not known. */
static __noinline __u64 owner_task(__u64 lock, __u32 kind)
{
	struct mutex *mutex = (void *)lock;
	struct rw_semaphore *rwsem = (void *)lock;
	struct rwbase_rt *rwbase = (void *)lock;
	__u64 owner;

	switch (kind) {
	case KIND_MUTEX:
	case KIND_MUTEX_SPIN:
		if (!bpf_core_field_exists(mutex->owner))
			return 0;
		return BPF_CORE_READ(mutex, owner.counter) & ~OWNER_FLAGS;
	case KIND_RWSEM_READ:
	case KIND_RWSEM_WRITE:
		if (!bpf_core_field_exists(rwsem->owner))
			return 0;
		owner = BPF_CORE_READ(rwsem, owner.counter);
		return owner & READERS_OWNED ? ~0ull : owner & ~OWNER_FLAGS;
	case KIND_RTMUTEX:
		return (__u64)rtmutex_owner((void *)lock);
	case KIND_RWLOCK_RT_READ:
	case KIND_RWLOCK_RT_WRITE:
		if (!bpf_core_type_exists(struct rwbase_rt))
			return 0;
		return (__u64)rtmutex_owner((void *)lock + bpf_core_field_offset(rwbase->rtmutex));
	default:
		return 0;
	}
}

/* For the slot of a sleeping wait. */
static __noinline int note_owner(__u32 slot, __u64 lock, __u32 kind)
{
	__u32 *owner = bpf_map_lookup_elem(&sleep_owners, &slot);
	__u64 task = owner_task(lock, kind);

	if (!owner)
		return 0;
	*owner = task == ~0ull ? ~0u : task ? BPF_CORE_READ((struct task_struct *)task, pid) : 0;
	return 0;
}

#endif /* OWNER_BPF_H */
