// SPDX-License-Identifier: GPL-2.0
/* lock:contention_begin and contention_end, since 5.19. */
#include "wait.bpf.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license")
= "GPL";

static __always_inline __u32 kind_of(__u32 flags)
{
	switch (flags) {
	case CONTENTION_SPIN:
		return KIND_SPINLOCK;
	case CONTENTION_SPIN | CONTENTION_READ:
		return KIND_RWLOCK_READ;
	case CONTENTION_SPIN | CONTENTION_WRITE:
		return KIND_RWLOCK_WRITE;
	case CONTENTION_MUTEX:
		return KIND_MUTEX;
	case CONTENTION_MUTEX | CONTENTION_SPIN:
		return KIND_MUTEX_SPIN;
	case CONTENTION_READ:
		return KIND_RWSEM_READ;
	case CONTENTION_WRITE:
		return KIND_RWSEM_WRITE;
	case CONTENTION_RT:
		return KIND_RTMUTEX;
	case CONTENTION_RT | CONTENTION_READ:
		return KIND_RWLOCK_RT_READ;
	case CONTENTION_RT | CONTENTION_WRITE:
		return KIND_RWLOCK_RT_WRITE;
	case CONTENTION_PERCPU | CONTENTION_READ:
		return KIND_PERCPU_RWSEM_READ;
	case CONTENTION_PERCPU | CONTENTION_WRITE:
		return KIND_PERCPU_RWSEM_WRITE;
	case 0:
		return KIND_SEMAPHORE;
	default:
		return KIND_UNKNOWN;
	}
}

/* Apart from the spinlocks, whose waiters have no time to spare: a kind known at compile time leaves no branches. */
static __noinline int begin_other(void *ctx, __u64 lock, __u32 flags)
{
	begin_wait(ctx, lock, kind_of(flags));
	return 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	if (flags == CONTENTION_SPIN)
		begin_wait(ctx, (__u64)lock, KIND_SPINLOCK);
	else
		begin_other(ctx, (__u64)lock, flags);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int result)
{
	end_wait(ctx, (__u64)lock, result);
	return 0;
}

/* Run by the collector, never attached: the jiffy that coarse_base_ns belongs to. */
SEC("raw_tp/contention_begin")
int current_jiffy(void *ctx)
{
	return bpf_jiffies64();
}
