// SPDX-License-Identifier: GPL-2.0
/*
 * lock:contention_begin and contention_end, since 5.19; and the slow paths of
 * spinlocks, and of writers that pass neither.  In one file, because libbpf 1.1
 * cannot link two objects that call the same kernel function (compat.bpf.h, current.bpf.h).
 */
#include "known.bpf.h"
#include "search.bpf.h"
#include "spin.bpf.h"
#include "wait.bpf.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license")
= "GPL";

/* A kind by the tracepoint's flags, plus one: 0 is a kind that this version does not know. */
#define KIND_FLAGS 64
static const __u8 kind_by_flags[KIND_FLAGS] = {
	[CONTENTION_SPIN] = KIND_SPINLOCK + 1,
	[CONTENTION_SPIN | CONTENTION_READ] = KIND_RWLOCK_READ + 1,
	[CONTENTION_SPIN | CONTENTION_WRITE] = KIND_RWLOCK_WRITE + 1,
	[CONTENTION_MUTEX] = KIND_MUTEX + 1,
	[CONTENTION_MUTEX | CONTENTION_SPIN] = KIND_MUTEX_SPIN + 1,
	[CONTENTION_READ] = KIND_RWSEM_READ + 1,
	[CONTENTION_WRITE] = KIND_RWSEM_WRITE + 1,
	[CONTENTION_RT] = KIND_RTMUTEX + 1,
	[CONTENTION_RT | CONTENTION_READ] = KIND_RWLOCK_RT_READ + 1,
	[CONTENTION_RT | CONTENTION_WRITE] = KIND_RWLOCK_RT_WRITE + 1,
	[CONTENTION_PERCPU | CONTENTION_READ] = KIND_PERCPU_RWSEM_READ + 1,
	[CONTENTION_PERCPU | CONTENTION_WRITE] = KIND_PERCPU_RWSEM_WRITE + 1,
	[0] = KIND_SEMAPHORE + 1,
};

/* By a table: the verifier would walk all that follows a switch once for each kind. */
static __always_inline __u32 kind_of(__u32 flags)
{
	__u32 kind = flags < KIND_FLAGS ? kind_by_flags[flags] : 0;

	return kind ? kind - 1 : KIND_UNKNOWN;
}

/* Of the four that nearly all sleeping waits have, without a look at all kinds. */
static __always_inline __u32 common_sleeping_kind(__u32 flags)
{
	if ((flags | CONTENTION_SPIN) == (CONTENTION_MUTEX | CONTENTION_SPIN))
		return KIND_MUTEX + (flags & CONTENTION_SPIN);
	if (flags == CONTENTION_READ)
		return KIND_RWSEM_READ;
	return flags == CONTENTION_WRITE ? KIND_RWSEM_WRITE : KIND_END;
}

static __noinline int begin_other(void *ctx, __u64 lock, __u32 flags)
{
	begin_wait(ctx, lock, kind_of(flags));
	return 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	__u32 kind;

	/* A kind known at compile time leaves no branches to those who have no time to spare. */
	if (likely(flags == CONTENTION_SPIN)) {
		begin_that_spins(ctx, (__u64)lock, KIND_SPINLOCK, 0);
		return 0;
	}
	kind = common_sleeping_kind(flags);
	if (likely(kind != KIND_END))
		begin_that_sleeps(ctx, (__u64)lock, kind);
	else
		begin_other(ctx, (__u64)lock, flags);
	return 0;
}

SEC("tp_btf/contention_end")
int contention_end(__u64 *ctx)
{
	end_wait(ctx);
	return 0;
}

/*
 * A writer of an rwsem that gets it by spinning passes no tracepoint, and since
 * 6.7 neither does a writer of a percpu-rwsem that waits for readers alone (and
 * for RCU, before it looks at them).
 */
#define MOST_ERRNO 4095

/* As a number or a pointer: 0 or the rwsem if it was got, else a negative errno. */
static __always_inline __s32 result_of(__u64 returned)
{
	return returned >= (__u64)-MOST_ERRNO ? (__s32)returned : 0;
}

/* struct rw_semaphore *(struct rw_semaphore *, int), 5.10 to 7.3 */
SEC("?fentry/rwsem_down_write_slowpath")
int rwsem_write_enter(void *ctx)
{
	enter_sleeping_path(ctx, function_lock(ctx), KIND_RWSEM_WRITE);
	return 0;
}

SEC("?fexit/rwsem_down_write_slowpath")
int rwsem_write_leave(void *ctx)
{
	__u64 returned = 0;

	bpf_get_func_ret(ctx, &returned);
	leave_sleeping_path(ctx, function_lock(ctx), result_of(returned));
	return 0;
}

/*
 * Where the kernel has no fentry.  Returns are probed as long as the kernel's
 * few slots for them last, and sleepers take them too: a return that is missed
 * after that costs the wait of a writer that spun, no more.  What failed
 * has ended by contention_end; what did not returns its lock.
 */
SEC("?kprobe")
int rwsem_write_kprobe_enter(struct pt_regs *ctx)
{
	enter_sleeping_path(ctx, PT_REGS_PARM1(ctx), KIND_RWSEM_WRITE);
	return 0;
}

SEC("?kretprobe")
int rwsem_write_kprobe_leave(struct pt_regs *ctx)
{
	leave_sleeping_path(ctx, PT_REGS_RC(ctx), 0);
	return 0;
}

/* void (struct percpu_rw_semaphore *), 5.10 to 7.3 */
SEC("?fentry/percpu_down_write")
int percpu_write_enter(void *ctx)
{
	enter_sleeping_path(ctx, function_lock(ctx), KIND_PERCPU_RWSEM_WRITE);
	return 0;
}

SEC("?fexit/percpu_down_write")
int percpu_write_leave(void *ctx)
{
	leave_sleeping_path(ctx, function_lock(ctx), 0);
	return 0;
}

/* Run by the collector, never attached: the jiffy that coarse_base_ns belongs to. */
SEC("raw_tp/contention_begin")
int current_jiffy(void *ctx)
{
	return bpf_jiffies64();
}
