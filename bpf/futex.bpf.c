// SPDX-License-Identifier: GPL-2.0
/*
 * Futex calls (record --futex), at the tracepoints of all system calls: the
 * only place that has them all and is the same in every kernel.  Calls are
 * followed by task, from entry to exit; wake-ups and context switches tell
 * which of them slept, and how long the woken task waited for a CPU.
 *
 * System calls can be preempted from 7.x on, and rows are written with atomic
 * adds for that; a maximum may be lost then, its bucket stands.
 */
#include "clock.bpf.h"
#include "filter.bpf.h"
#include "futex.bpf.h"
#include <bpf/bpf_tracing.h>

/* arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h.  The later ones are the same everywhere. */
#if defined(__TARGET_ARCH_x86)
#define NR_FUTEX 202
#else
#define NR_FUTEX 98
#endif
#define NR_FUTEX_WAITV   449
#define NR_FUTEX_WAKE    454
#define NR_FUTEX_WAIT    455
#define NR_FUTEX_REQUEUE 456

#define FUTEX_PRIVATE  128u /* FUTEX_PRIVATE_FLAG and FUTEX2_PRIVATE */
#define FUTEX_COMMANDS 0x1fu
#define OWNER_OFFSET   8 /* of pthread_mutex_t.__owner after .__lock: glibc 2.3 to 2.42, 64 bits */

/* Errors of a wait. */
#define FUTEX_EAGAIN    11
#define FUTEX_EINTR     4
#define FUTEX_ETIMEDOUT 110
#define ERESTARTSYS     512
#define ERESTART_LAST   516

struct futex_call {
	__u64 address;
	__u64 value;
	__u32 op;
	__u32 flags;
};

/* include/uapi/linux/futex.h */
struct waitv_entry {
	__u64 value;
	__u64 address;
	__u32 flags;
	__u32 reserved;
};

static __always_inline bool is_futex_call(long id)
{
	return id == NR_FUTEX || id == NR_FUTEX_WAITV || (id >= NR_FUTEX_WAKE && id <= NR_FUTEX_REQUEUE);
}

static __always_inline __u64 call_argument(struct pt_regs *regs, int n)
{
#if defined(__TARGET_ARCH_x86)
	switch (n) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	case 3:
		return regs->r10;
	default:
		return regs->r8;
	}
#else
	return n ? regs->regs[n] : regs->orig_x0;
#endif
}

/* A 32-bit task: its numbers and arguments are others. */
static __always_inline bool is_compat(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

#if defined(__TARGET_ARCH_x86)
	return BPF_CORE_READ(task, thread_info.status) & 2; /* TS_COMPAT */
#else
	return BPF_CORE_READ(task, thread_info.flags) >> 22 & 1; /* TIF_32BIT */
#endif
}

static __always_inline void read_entry(struct pt_regs *regs, __u32 index, struct futex_call *call)
{
	struct waitv_entry entry = {};

	bpf_probe_read_user(&entry, sizeof(entry), (void *)(call_argument(regs, 0) + index * sizeof(entry)));
	call->address = entry.address;
	call->value = entry.value;
	call->flags = entry.flags & FUTEX_PRIVATE ? 0 : FUTEX_SHARED;
}

static __always_inline void read_call(struct pt_regs *regs, long id, struct futex_call *call)
{
	__u32 flags;

	call->address = call_argument(regs, 0);
	if (id == NR_FUTEX) {
		flags = call_argument(regs, 1);
		call->op = flags & FUTEX_COMMANDS;
		call->value = call_argument(regs, 2);
		if (FUTEX_WAIT_OPS & FUTEX_BIT(call->op) && call_argument(regs, 3))
			call->flags |= FUTEX_TIMED;
	} else if (id == NR_FUTEX_WAITV) {
		call->op = FUTEX_OP_WAITV;
		read_entry(regs, 0, call);
		if (call_argument(regs, 3))
			call->flags |= FUTEX_TIMED;
		return;
	} else if (id == NR_FUTEX_REQUEUE) {
		call->op = FUTEX_OP_REQUEUE2;
		read_entry(regs, 0, call);
		return;
	} else if (id == NR_FUTEX_WAIT) {
		call->op = FUTEX_OP_WAIT2;
		call->value = call_argument(regs, 1);
		flags = call_argument(regs, 3);
		if (call_argument(regs, 4))
			call->flags |= FUTEX_TIMED;
	} else {
		call->op = FUTEX_OP_WAKE2;
		flags = call_argument(regs, 3);
	}
	if (!(flags & FUTEX_PRIVATE))
		call->flags |= FUTEX_SHARED;
}

static __noinline int begin_call(struct pt_regs *regs, long id)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct futex_state *state = futex_state_of(cpu);
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct futex_call call = {};
	struct futex_slot *slot;

	if (!waits || !state || !waits->begin_kinds || waits->flags & STATE_SHALLOW ||
	    (waits->flags & STATE_FILTERED && !wanted_task()))
		return 0;
	if (is_compat()) {
		count_futex(state, FUTEX_COUNT_COMPAT);
		return 0;
	}
	slot = find_futex_slot((__u32)pid_tgid);
	if (slot)
		count_futex(state, FUTEX_COUNT_ORPHANED);
	else
		slot = claim_futex_slot((__u32)pid_tgid);
	if (!slot) {
		count_futex(state, FUTEX_COUNT_NO_SLOT);
		return 0;
	}
	count_futex(state, FUTEX_COUNT_CALLS);
	read_call(regs, id, &call);
	slot->tgid = pid_tgid >> 32;
	slot->address = call.address;
	slot->value = call.value;
	slot->op = call.op;
	slot->flags = call.flags;
	slot->waker_tid = 0;
	slot->waking_ns = 0;
	slot->latency_ns = 0;
	slot->word = 0;
	slot->owner = 0;
	if (FUTEX_WAIT_OPS & FUTEX_BIT(call.op & FUTEX_OP_NONE)) {
		bpf_probe_read_user(&slot->word, sizeof(slot->word), (void *)call.address);
		bpf_probe_read_user(&slot->owner, sizeof(slot->owner), (void *)(call.address + OWNER_OFFSET));
	}
	slot->begin_ns = clock_now(waits);
	return 0;
}

SEC("?tp_btf/sys_enter")
int futex_enter(__u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	long id = ctx[1];

	if (is_futex_call(id))
		begin_call(regs, id);
	return 0;
}

static __always_inline struct futex_row *futex_row_at(__u32 cpu, __u32 row)
{
	__u32 index = cpu * futex_rows_per_cpu + row;

	return bpf_map_lookup_elem(&futex_rows, &index);
}

static __noinline struct futex_row *find_futex_row(struct futex_state *state, __u32 cpu, __u32 tgid, __u64 address)
{
	__u64 key = futex_row_key(tgid, address);
	__u32 named = futex_rows_per_cpu - 1, index = (key >> 32) * named >> 32;

	for (int probe = 0; probe < FUTEX_ROW_PROBES; probe++) {
		struct futex_row *row = futex_row_at(cpu, index);

		if (!row)
			return NULL;
		if (!row->key && !__sync_val_compare_and_swap(&row->key, 0, key)) {
			row->tgid = tgid;
			row->address = address;
		}
		if (row->key == key)
			return row;
		if (++index >= named)
			index = 0;
	}
	if (state)
		count_futex(state, FUTEX_COUNT_NO_ROW);
	return futex_row_at(cpu, named);
}

static __always_inline void add_to_set(__u64 set[2], __u32 tid)
{
	__u32 bit = (tid * 0x9e3779b1u) >> 25;

	if (!(set[bit >> 6 & 1] >> (bit & 63) & 1))
		__sync_fetch_and_or(&set[bit >> 6 & 1], 1ull << (bit & 63));
}

static __noinline int write_futex_event(void *ctx, struct futex_state *state, struct futex_slot *slot, __u64 wait_ns,
					__u64 weights)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	__u64 position, pid_tgid = bpf_get_current_pid_tgid();
	struct futex_event *event;
	long bytes;

	if (!ctx || !state || !slot)
		return 0;
	position = __sync_fetch_and_add(&state->events, 1);
	index = cpu * FUTEX_RING_EVENTS + (position & (FUTEX_RING_EVENTS - 1));
	event = bpf_map_lookup_elem(&futex_events, &index);
	if (!event)
		return 0;
	__sync_lock_test_and_set(&event->sequence, 0);
	event->address = slot->address;
	event->wait_ns = wait_ns;
	event->tid = pid_tgid;
	event->tgid = pid_tgid >> 32;
	event->waker_tid = slot->waker_tid;
	event->value = slot->value;
	event->word = slot->word;
	event->owner = slot->owner;
	event->op = slot->op;
	event->flags = (FUTEX_WAIT_OPS & FUTEX_BIT(slot->op & FUTEX_OP_NONE) ? 0 : FUTEX_EVENT_WAKE) |
		       (slot->flags & FUTEX_SHARED ? FUTEX_EVENT_SHARED : 0);
	event->weight = weights >> 40;
	event->weight_ns = weights & ((1ull << 40) - 1);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	bytes = bpf_get_stack(ctx, event->user, sizeof(event->user), BPF_F_USER_STACK);
	event->user_frames = bytes < 0 ? 0 : (__u64)bytes / sizeof(__u64);
	__sync_lock_test_and_set(&event->sequence, position + 1);
	return 0;
}

/* One in tokens; not atomic: what a preempted program takes twice is one sample more. */
static __always_inline bool takes_token(__u32 *tokens, struct futex_row *row)
{
	if (*tokens <= (row->samples < FUTEX_FEW_SAMPLES ? 0 : FUTEX_RESERVED))
		return false;
	--*tokens;
	row->samples++;
	return true;
}

static __always_inline __u64 pack_weights(__u64 waits, __u64 ns)
{
	const __u64 most_ns = (1ull << 40) - 1, most = (1ull << 24) - 1;

	return (waits < most ? waits : most) << 40 | (ns < most_ns ? ns : most_ns);
}

static __always_inline void record_latency(struct futex_row *row, __u64 latency)
{
	__sync_fetch_and_add(&row->latency_histogram[histogram_bucket(latency) & (HISTOGRAM_BUCKETS - 1)], 1);
	__sync_fetch_and_add(&row->latency_ns, latency);
	if (latency > row->max_latency_ns)
		row->max_latency_ns = latency;
	__sync_fetch_and_add(&row->latencies, 1);
}

static __always_inline void count_result(struct futex_row *row, struct futex_slot *slot, long result, __u64 wait_ns)
{
	if (result >= 0)
		return;
	if (result == -FUTEX_ETIMEDOUT) {
		__sync_fetch_and_add(&row->timed_out, 1);
		if (slot->flags & FUTEX_RAN)
			__sync_fetch_and_add(&row->timed_out_ns, wait_ns);
	} else if (result == -FUTEX_EAGAIN) {
		__sync_fetch_and_add(&row->again, 1);
	} else if (result == -FUTEX_EINTR || (result <= -ERESTARTSYS && result >= -ERESTART_LAST)) {
		__sync_fetch_and_add(&row->interrupted, 1);
	} else {
		__sync_fetch_and_add(&row->failed, 1);
	}
}

static __noinline int end_futex_wait(void *ctx, struct futex_state *state, struct futex_slot *slot, __u64 now,
				     __s64 result)
{
	__u32 cpu = bpf_get_smp_processor_id(), tid = bpf_get_current_pid_tgid();
	struct futex_row *row;
	__u64 wait_ns, waits, ns;

	if (!ctx || !state || !slot)
		return 0;
	row = find_futex_row(state, cpu, slot->tgid, slot->address);
	if (!row)
		return 0;
	wait_ns = now > slot->begin_ns ? now - slot->begin_ns : 0;
	row->flags = slot->flags & FUTEX_SHARED;
	__sync_fetch_and_or(&row->ops, FUTEX_BIT(slot->op & FUTEX_OP_NONE));
	__sync_fetch_and_add(&row->calls, 1);
	if (slot->flags & FUTEX_TIMED)
		__sync_fetch_and_add(&row->timed, 1);
	if (slot->value == 2)
		__sync_fetch_and_add(&row->value_2, 1);
	count_result(row, slot, result, wait_ns);
	/* A call that did not sleep waited for nobody. */
	if (!(slot->flags & FUTEX_RAN))
		return 0;
	add_to_set(row->waiter_set, tid);
	record_latency(row, slot->latency_ns);
	__sync_fetch_and_add(&row->histogram[histogram_bucket(wait_ns) & (HISTOGRAM_BUCKETS - 1)], 1);
	__sync_fetch_and_add(&row->wait_ns, wait_ns);
	if (wait_ns > row->max_ns)
		row->max_ns = wait_ns;
	waits = __sync_fetch_and_add(&row->pending_waits, 1) + 1;
	ns = __sync_fetch_and_add(&row->pending_ns, wait_ns) + wait_ns;
	__sync_fetch_and_add(&row->slept, 1);
	if (takes_token(&state->wait_tokens, row)) {
		row->pending_waits = 0;
		row->pending_ns = 0;
		write_futex_event(ctx, state, slot, wait_ns, pack_weights(waits, ns));
	}
	return 0;
}

static __noinline int end_futex_wake(void *ctx, struct futex_state *state, struct futex_slot *slot, __s64 result)
{
	__u32 cpu = bpf_get_smp_processor_id(), tid = bpf_get_current_pid_tgid();
	struct futex_row *row;

	if (!ctx || !state || !slot)
		return 0;
	row = find_futex_row(state, cpu, slot->tgid, slot->address);
	if (!row)
		return 0;
	row->flags = slot->flags & FUTEX_SHARED;
	__sync_fetch_and_or(&row->ops, FUTEX_BIT(slot->op & FUTEX_OP_NONE));
	__sync_fetch_and_add(&row->wakes, 1);
	if (result <= 0) {
		/* FUTEX_UNLOCK_PI tells of success alone. */
		if (!(FUTEX_PI_OPS & FUTEX_BIT(slot->op & FUTEX_OP_NONE)))
			__sync_fetch_and_add(&row->wakes_empty, 1);
		else if (!result)
			add_to_set(row->waker_set, tid);
		return 0;
	}
	add_to_set(row->waker_set, tid);
	__sync_fetch_and_add(&row->tasks_woken, result);
	if (takes_token(&state->wake_tokens, row))
		write_futex_event(ctx, state, slot, 0, pack_weights(result, 0));
	return 0;
}

static __noinline int end_call(void *ctx, struct pt_regs *regs, __s64 result)
{
	__u32 cpu = bpf_get_smp_processor_id(), tid = bpf_get_current_pid_tgid();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct futex_state *state = futex_state_of(cpu);
	struct futex_slot *slot = find_futex_slot(tid);
	__u64 now;

	if (!ctx || !waits || !state || !slot)
		return 0;
	now = clock_now(waits);
	if (slot->op == FUTEX_OP_WAITV && result > 0) {
		struct futex_call call = {};

		read_entry(regs, result & 127, &call);
		slot->address = call.address;
	}
	if (FUTEX_WAIT_OPS & FUTEX_BIT(slot->op & FUTEX_OP_NONE))
		end_futex_wait(ctx, state, slot, now, result);
	else
		end_futex_wake(ctx, state, slot, result);
	release_futex_slot(slot, tid);
	return 0;
}

SEC("?tp_btf/sys_exit")
int futex_exit(__u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
#if defined(__TARGET_ARCH_x86)
	long id = regs->orig_ax;
#else
	long id = regs->syscallno;
#endif

	if (is_futex_call(id))
		end_call(ctx, regs, ctx[1]);
	return 0;
}

/* The slot of a task that waits in a futex call, or NULL. */
static __always_inline struct futex_slot *waiting_in_futex(struct task_struct *task)
{
	struct futex_slot *slot = find_futex_slot(task->pid);

	return slot && FUTEX_WAIT_OPS & FUTEX_BIT(slot->op & FUTEX_OP_NONE) ? slot : NULL;
}

SEC("?tp_btf/sched_waking")
int futex_waking(__u64 *ctx)
{
	struct futex_slot *slot = waiting_in_futex((void *)ctx[0]);
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);

	if (!slot || !waits || slot->flags & FUTEX_WOKEN)
		return 0;
	slot->waking_ns = clock_now(waits);
	slot->waker_tid = bpf_get_current_pid_tgid();
	slot->flags |= FUTEX_WOKEN;
	return 0;
}

SEC("?tp_btf/sched_switch")
int futex_switch(__u64 *ctx)
{
	struct futex_slot *slot = waiting_in_futex((void *)ctx[2]);
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	__u64 now;

	if (!slot || !waits || !(slot->flags & FUTEX_WOKEN))
		return 0;
	now = clock_now(waits);
	slot->latency_ns = now > slot->waking_ns ? now - slot->waking_ns : 0;
	slot->flags = (slot->flags & ~FUTEX_WOKEN) | FUTEX_RAN;
	return 0;
}
