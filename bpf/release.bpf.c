// SPDX-License-Identifier: GPL-2.0
/*
 * The unlock side (record --holders): who let go of a lock that others wait for.
 *
 * Every unlock comes here, so that nearly all must leave at once: the lock word
 * is in this CPU's cache, and its pending and tail bits, or a flag in the
 * owner field, tell whether anyone waits.  The lock is still held.
 */
#include "wait.bpf.h"
#include <bpf/bpf_tracing.h>

/* Of a queued spinlock's word the locked byte; above it stand the pending byte and the tail of the queue. */
#define LOCKED_MASK 0xff
/* Low bits of mutex.owner and rt_mutex_base.owner, and of rw_semaphore.count: there are waiters; 5.10 to 7.2. */
#define MUTEX_WAITERS   1
#define RTMUTEX_WAITERS 1
#define RWSEM_WAITERS   2

static __always_inline bool has_waiters(__u64 lock, __u32 word)
{
	__u32 index = lock_hash(lock, WAITER_COUNTS);
	struct waiter_count *count;

	if (!count_waiters)
		return word & ~LOCKED_MASK;
	count = bpf_map_lookup_elem(&waiter_counts, &index);
	return count && count->waiters;
}

/* 1 + slot of the stack taken, or 0. */
static __noinline int release_stack(void *ctx, struct release_state *state, __u32 cpu)
{
	__u32 slot, index;
	struct wait_stack *stack;

	if (!ctx || !state || !state->stack_tokens)
		return 0;
	state->stack_tokens--;
	slot = state->stacks++ & (RELEASE_STACKS - 1);
	index = cpu * RELEASE_STACKS + slot;
	stack = bpf_map_lookup_elem(&release_stacks, &index);
	if (!stack)
		return 0;
	__builtin_memset(stack->kernel, 0, sizeof(stack->kernel));
	bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0);
	return slot + 1;
}

static __noinline int record_release(void *ctx, __u64 lock, __u32 kind)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct release_state *state = release_state_of(cpu);
	struct cpu_state *waits = state_of(cpu);
	__u64 pid_tgid = bpf_get_current_pid_tgid(), position;
	struct lock_turn *turn;
	__u16 stack;

	if (!ctx || !state || !waits || !waits->begin_kinds)
		return 0;
	stack = release_stack(ctx, state, cpu);
	turn = begin_turn(state, cpu, &position);
	if (!turn)
		return 0;
	turn->lock = lock;
	turn->begin_ns = 0;
	turn->tid = pid_tgid;
	turn->tgid = pid_tgid >> 32;
	turn->owner_tid = 0;
	turn->kind = kind;
	turn->flags = TURN_RELEASE;
	turn->stack = stack;
	bpf_get_current_comm(turn->comm, sizeof(turn->comm));
	turn->time_ns = clock_now(waits);
	end_turn(turn, position);
	return 0;
}

static __always_inline bool in_focus(__u64 lock)
{
	__u32 slot = focus_slot(lock);
	__u64 *focused = bpf_map_lookup_elem(&focus, &slot);

	return focused && *focused == lock;
}

static __noinline int begin_hold(__u64 lock)
{
	__u32 cpu = bpf_get_smp_processor_id(), depth;
	struct release_state *state = release_state_of(cpu);
	struct cpu_state *waits = state_of(cpu);

	if (!state || !waits || !in_focus(lock))
		return 0;
	/* A release that was not seen leaves its slot: what lies above a full stack is given up with it. */
	if (state->hold_depth >= HOLD_DEPTH) {
		state->holds_lost += state->hold_depth;
		state->hold_depth = 0;
	}
	depth = state->hold_depth & (HOLD_DEPTH - 1);
	state->holds[depth].lock = lock;
	state->hold_depth = depth + 1;
	barrier();
	state->holds[depth].begin_ns = clock_now(waits);
	return 0;
}

static __noinline int end_hold(__u64 lock)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct release_state *state = release_state_of(cpu);
	struct cpu_state *waits = state_of(cpu);
	__u64 now, held;
	struct hold_row *row;

	if (!state || !waits || !in_focus(lock))
		return 0;
	now = clock_now(waits);
	for (int i = HOLD_DEPTH - 1; i >= 0; i--) {
		if ((__u32)i >= state->hold_depth || state->holds[i].lock != lock)
			continue;
		held = now - state->holds[i].begin_ns;
		state->holds_lost += state->hold_depth - i - 1;
		state->hold_depth = i;
		index = cpu * FOCUS_LOCKS + focus_slot(lock);
		row = bpf_map_lookup_elem(&hold_rows, &index);
		if (!row)
			return 0;
		row->hold_ns += held;
		if (held > row->max_ns)
			row->max_ns = held;
		row->histogram[histogram_bucket(held) & (HISTOGRAM_BUCKETS - 1)]++;
		barrier();
		row->holds++;
		return 0;
	}
	return 0;
}

static __always_inline void spin_unlocks(void *ctx, __u64 lock, __u32 word, __u32 kind)
{
	if (measure_holds && kind == KIND_SPINLOCK)
		end_hold(lock);
	if (has_waiters(lock, word))
		record_release(ctx, lock, kind);
}

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

/* Where fentry is not to be had; one program for all four functions. */
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

/* The same before 7.2, at the functions that every release passes. */
SEC("?fentry/mutex_unlock")
int BPF_PROG(mutex_unlocks, struct mutex *lock)
{
	__u64 owner;

	if (bpf_core_field_exists(lock->owner))
		owner = lock->owner.counter & MUTEX_WAITERS;
	else
		owner = (__u64)lock->rtmutex.owner & RTMUTEX_WAITERS;
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
		waiters = (__u64)lock->rwbase.rtmutex.owner & RTMUTEX_WAITERS;
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
	if ((__u64)lock->lock.owner & RTMUTEX_WAITERS)
		record_release(ctx, function_lock(ctx), KIND_UNKNOWN);
	return 0;
}
