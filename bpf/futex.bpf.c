// SPDX-License-Identifier: GPL-2.0
/*
 * Futex calls (record --futex), at the functions of their system calls, or at the
 * tracepoints of all system calls, which every kernel has.  Calls are
 * followed by task, from entry to exit.  Wake-ups, and the kernel's count of a task's switches, tell
 * which of them slept, and how long the woken task waited for a CPU.  Most calls
 * wake nobody or find the word changed: what only others need is left to them.
 *
 * System calls can be preempted from 7.x on, and rows are written with atomic
 * adds for that; a maximum may be lost then, its bucket stands.
 */
#include "clock.bpf.h"
#include "filter.bpf.h"
#include "futex.bpf.h"
#include "futex_call.bpf.h"
#include <bpf/bpf_tracing.h>

/* Errors of a wait. */
#define FUTEX_EAGAIN          11
#define FUTEX_EINTR           4
#define FUTEX_ETIMEDOUT       110
#define ERESTARTSYS           512
#define ERESTART_LAST         516
#define ERESTART_RESTARTBLOCK 516

static __always_inline void read_words(struct futex_slot *slot)
{
	struct futex_words words = {};

	/* The end of a page may have no more than the word. */
	if (slot->op != FUTEX_OP_YIELD && bpf_probe_read_user(&words, sizeof(words), (void *)slot->address))
		bpf_probe_read_user(&words.word, sizeof(words.word), (void *)slot->address);
	slot->word = words.word;
	slot->owner = words.owner;
	if (futex_is_semaphore(&words, slot->op, slot->value, slot->flags & FUTEX_SHARED))
		slot->flags |= FUTEX_SEM;
}

static __always_inline bool is_wait(__u32 op)
{
	return FUTEX_WAIT_OPS & FUTEX_BIT(op & FUTEX_OP_NONE);
}

/* A wake of a private futex has all that is to be known of it in its registers when it ends. */
static __always_inline bool needs_slot(const struct futex_call *call)
{
	return is_wait(call->op) || call->flags & FUTEX_SHARED || call->op == FUTEX_OP_REQUEUE2;
}

/* Apart, as the verifier would walk what follows once for each way through it. */
static __noinline int wanted_here(__u64 pid_tgid)
{
	return wanted_ids(pid_tgid);
}

static __always_inline bool recorded(const struct cpu_state *waits, __u64 pid_tgid)
{
	return waits->begin_kinds && !(waits->flags & STATE_SHALLOW) &&
	       (!(waits->flags & STATE_FILTERED) || wanted_here(pid_tgid));
}

/* How often the current task gave its CPU away. */
static __always_inline __u64 switches(void)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	return task->nvcsw + task->nivcsw;
}

static __noinline int count_here(enum futex_counter counter)
{
	struct futex_state *state = futex_state_of(bpf_get_smp_processor_id());

	if (state && counter < FUTEX_COUNT_LAST)
		count_futex(state, counter);
	return 0;
}

/* A wait begins, or goes on. */
static __always_inline void begin_wait_in(struct futex_slot *slot, const struct cpu_state *waits)
{
	slot->waker_tid = 0;
	slot->switches = switches();
	read_words(slot);
	slot->begin_ns = clock_now(waits);
}

static __noinline int begin_call(struct pt_regs *regs, long id)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct futex_call call = {};
	struct futex_slot *slot;
	bool compat = is_compat();

	id = unknown(id, pid_tgid);
	/* Filters first: of other processes no more is looked at. */
	if (!waits || !recorded(waits, pid_tgid) || !is_futex_call(id, compat))
		return 0;
	read_call(regs, id, compat, &call);
	if (!needs_slot(&call))
		return 0;
	slot = find_futex_slot((__u32)pid_tgid);
	if (!slot)
		slot = claim_futex_slot((__u32)pid_tgid);
	else if (!(slot->flags & FUTEX_PAUSED))
		count_here(FUTEX_COUNT_ORPHANED);
	if (!slot) {
		count_here(FUTEX_COUNT_NO_SLOT);
		return 0;
	}
	if (compat)
		count_here(FUTEX_COUNT_COMPAT);
	/* The collector takes no slot for a wait before its begin is written. */
	*(volatile __u64 *)&slot->begin_ns = 0;
	slot->tgid = pid_tgid >> 32;
	slot->address = call.address;
	slot->op = call.op;
	slot->flags = call.flags;
	if (!is_wait(call.op))
		return 0;
	slot->value = call.value;
	begin_wait_in(slot, waits);
	return 0;
}

/* A signal without a handler ended a wait; its registers tell a restart of it from that of another call. */
static __noinline int restart_call(struct pt_regs *regs)
{
	__u32 cpu = bpf_get_smp_processor_id(), tid = bpf_get_current_pid_tgid();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct futex_slot *slot = find_futex_slot(tid);

	if (!slot || !(slot->flags & FUTEX_PAUSED) || !waits || !waits->begin_kinds)
		return 0;
	if (call_argument(regs, is_compat(), 0) != slot->address)
		return 0;
	count_here(FUTEX_COUNT_RESTARTED);
	slot->flags &= FUTEX_SHARED | FUTEX_TIMED;
	begin_wait_in(slot, waits);
	return 0;
}

static __always_inline void enter_call(struct pt_regs *regs, long id)
{
	if (may_be_futex_call(id))
		begin_call(regs, id);
	else if (id == NR_RESTART)
		restart_call(regs);
}

SEC("?tp_btf/sys_enter")
int futex_enter(__u64 *ctx)
{
	enter_call((void *)ctx[0], ctx[1]);
	return 0;
}

static __always_inline struct futex_row *futex_row_at(__u32 cpu, __u32 row)
{
	__u32 index = cpu * futex_rows_per_cpu + row;

	return bpf_map_lookup_elem(&futex_rows, &index);
}

/* Number of the CPU's row of a futex: found, or claimed, or the last one, of all that have no place. */
VERIFIED_ONCE __u32 probe_futex_rows(__u32 cpu, __u32 tgid, __u64 address)
{
	__u64 key = futex_row_key(tgid, address);
	__u32 named = futex_rows_per_cpu - 1, index = (key >> 32) * named >> 32;

	for (int probe = 0; probe < FUTEX_ROW_PROBES; probe++) {
		struct futex_row *row = futex_row_at(cpu, index);

		if (!row)
			break;
		if (!row->key && !__sync_val_compare_and_swap(&row->key, 0, key)) {
			struct task_struct *task = (void *)bpf_get_current_task();

			BPF_CORE_READ_STR_INTO(&row->comm, task, group_leader, comm);
			row->tgid = tgid;
			row->address = address;
		}
		if (row->key == key)
			return index;
		index += probe + 1;
		if (index >= named)
			index -= named;
		index = unknown(index, key);
	}
	return named;
}

static __always_inline struct futex_row *find_futex_row(struct futex_state *state, __u32 cpu, __u32 tgid, __u64 address)
{
	__u32 index = probe_futex_rows(cpu, tgid, address);

	if (state && index == futex_rows_per_cpu - 1)
		count_futex(state, FUTEX_COUNT_NO_ROW);
	return futex_row_at(cpu, index);
}

static __always_inline void add_to_set(__u64 set[2], __u32 tid)
{
	__u32 bit = (tid * 0x9e3779b1u) >> 25;

	if (!(set[bit >> 6 & 1] >> (bit & 63) & 1))
		__sync_fetch_and_or(&set[bit >> 6 & 1], 1ull << (bit & 63));
}

/* The stack pointer. */
static __always_inline __u64 copy_registers(struct pt_regs *regs, struct futex_stack *copy)
{
#if defined(__TARGET_ARCH_x86)
	__u64 *to = copy->registers;

	to[0] = regs->ax;
	to[1] = regs->dx;
	to[2] = regs->cx;
	to[3] = regs->bx;
	to[4] = regs->si;
	to[5] = regs->di;
	to[6] = regs->bp;
	to[7] = regs->sp;
	to[8] = regs->r8;
	to[9] = regs->r9;
	to[10] = regs->r10;
	to[11] = regs->r11;
	to[12] = regs->r12;
	to[13] = regs->r13;
	to[14] = regs->r14;
	to[15] = regs->r15;
	copy->pc = regs->ip;
	return to[7];
#else
#pragma unroll
	for (int i = 0; i < 31; i++)
		copy->registers[i] = regs->regs[i];
	copy->registers[31] = regs->sp;
	copy->pc = regs->pc;
	return copy->registers[31];
#endif
}

/* regs: of the call's end, from where user space goes on. */
static __noinline int copy_user_stack(struct pt_regs *regs, __u64 position)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct futex_stack *copy;
	__u64 sp;
	int i;

	if (!futex_stacks_per_cpu || is_compat())
		return 0;
	index = cpu * futex_stacks_per_cpu + (position & (futex_stacks_per_cpu - 1));
	copy = bpf_map_lookup_elem(&futex_stacks, &index);
	if (!copy)
		return 0;
	__sync_lock_test_and_set(&copy->sequence, 0);
	/* By helpers: where a pointer to a pointer is followed, the verifier looks through all types of the kernel. */
	copy->program = BPF_CORE_READ(task, group_leader, start_time) + BPF_CORE_READ(task, self_exec_id);
	sp = copy_registers(regs, copy);
	/* What lies behind the stack's end is not there: as much as there is. */
#pragma unroll
	for (i = 0; i < FUTEX_STACK_BYTES / FUTEX_STACK_CHUNK; i++)
		if (bpf_probe_read_user(copy->stack + i * FUTEX_STACK_CHUNK, FUTEX_STACK_CHUNK,
					(void *)(sp + i * FUTEX_STACK_CHUNK)))
			break;
	copy->stack_bytes = (__u64)i * FUTEX_STACK_CHUNK;
	__sync_lock_test_and_set(&copy->sequence, position + 1);
	return 0;
}

/* The next event of this CPU's ring, with what every one has; its sequence is the writer's last word. */
static __always_inline struct futex_event *begin_futex_event(struct futex_state *state, __u64 weights, __u64 *position)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct futex_event *event;

	*position = __sync_fetch_and_add(&state->events, 1);
	index = cpu * FUTEX_RING_EVENTS + (*position & (FUTEX_RING_EVENTS - 1));
	event = bpf_map_lookup_elem(&futex_events, &index);
	if (!event)
		return NULL;
	__sync_lock_test_and_set(&event->sequence, 0);
	event->tid = pid_tgid;
	event->tgid = pid_tgid >> 32;
	event->weight = weights >> 40;
	event->weight_ns = weights & ((1ull << 40) - 1);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return event;
}

/* ctx: of sys_exit. */
static __noinline int write_futex_event(void *ctx, struct futex_state *state, struct futex_slot *slot, __u64 wait_ns,
					__u64 weights)
{
	struct futex_event *event;
	__u64 position;
	long bytes;

	if (!ctx || !state || !slot)
		return 0;
	event = begin_futex_event(state, weights, &position);
	if (!event)
		return 0;
	event->address = slot->address;
	event->wait_ns = wait_ns;
	event->waker_tid = slot->waker_tid;
	event->value = slot->value;
	event->word = slot->word;
	event->owner = slot->owner;
	event->op = slot->op;
	event->futex_tgid = slot->tgid;
	event->flags = (is_wait(slot->op) ? 0 : FUTEX_EVENT_WAKE) |
		       (slot->flags & FUTEX_SHARED ? FUTEX_EVENT_SHARED : 0) |
		       (slot->flags & FUTEX_SEM ? FUTEX_EVENT_SEM : 0);
	bytes = bpf_get_stack(ctx, event->user, sizeof(event->user), BPF_F_USER_STACK);
	event->user_frames = bytes < 0 ? 0 : (__u64)bytes / sizeof(__u64);
	copy_user_stack((void *)*(__u64 *)ctx, position);
	__sync_lock_test_and_set(&event->sequence, position + 1);
	return 0;
}

/* One in tokens, for a row that has so many; not atomic: what a preempted program takes twice is one sample more. */
static __always_inline bool takes_token(__u32 *tokens, __u16 *samples, __u16 few)
{
	if (*tokens <= (*samples < few ? 0 : FUTEX_RESERVED))
		return false;
	--*tokens;
	*samples += *samples < few;
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
	if (result == -FUTEX_EAGAIN) {
		__sync_fetch_and_add(&row->again, 1);
	} else if (result == -FUTEX_ETIMEDOUT) {
		__sync_fetch_and_add(&row->timed_out, 1);
		__sync_fetch_and_add(&row->timed_out_ns, wait_ns);
	} else if (result == -FUTEX_EINTR || (result <= -ERESTARTSYS && result >= -ERESTART_LAST)) {
		__sync_fetch_and_add(&row->interrupted, 1);
	} else {
		__sync_fetch_and_add(&row->failed, 1);
	}
}

/* How a futex is used changes seldom: its row's first line is read, and not written. */
static __always_inline void note_use(struct futex_row *row, const struct futex_slot *slot)
{
	__u64 bit = FUTEX_BIT(slot->op & FUTEX_OP_NONE);

	if (row->flags != (slot->flags & FUTEX_SHARED))
		row->flags = slot->flags & FUTEX_SHARED;
	if (!(row->ops & bit))
		__sync_fetch_and_or(&row->ops, bit);
}

static __always_inline void count_slept(struct futex_row *row, __u64 wait_ns)
{
	__sync_fetch_and_add(&row->histogram[histogram_bucket(wait_ns) & (HISTOGRAM_BUCKETS - 1)], 1);
	__sync_fetch_and_add(&row->wait_ns, wait_ns);
	if (wait_ns > row->max_ns)
		row->max_ns = wait_ns;
	__sync_fetch_and_add(&row->slept, 1);
}

/* What the sample of a wait that slept stands for, or 0: it is not sampled. */
static __always_inline __u64 sampled_weights(struct futex_state *state, struct futex_row *row, __u64 wait_ns)
{
	__u64 waits = __sync_fetch_and_add(&row->pending_waits, 1) + 1;

	__sync_fetch_and_add(&row->span_begun_ns, wait_ns);
	if (!futex_wait_due(row))
		return 0;
	if (futex_wait_yields(state, row)) {
		futex_wait_passed(state, row, bpf_get_prandom_u32());
		return 0;
	}
	if (!takes_token(&state->wait_tokens, &row->wait_samples, FUTEX_FEW_SAMPLES)) {
		futex_wait_missed(state, row, bpf_get_prandom_u32());
		return 0;
	}
	row->pending_waits = 0;
	return pack_weights(waits, futex_wait_sampled(state, row, bpf_get_prandom_u32()));
}

/* A call that slept. */
static __noinline int record_futex_wait(void *ctx, struct futex_state *state, struct futex_slot *slot,
					struct futex_row *row, __u64 wait_ns)
{
	__u64 weights, woken_ns;

	if (!ctx || !state || !slot || !row)
		return 0;
	woken_ns = slot->waking_ns - slot->begin_ns;
	add_to_set(row->waiter_set, slot->tid);
	/* Nobody wakes a task that yields. */
	record_latency(row, slot->flags & FUTEX_WOKEN && woken_ns < wait_ns ? wait_ns - woken_ns : 0);
	count_slept(row, wait_ns);
	weights = sampled_weights(state, row, wait_ns);
	if (weights)
		write_futex_event(ctx, state, slot, wait_ns, weights);
	return 0;
}

static __noinline int end_futex_wait(void *ctx, struct futex_state *state, struct futex_slot *slot,
				     struct cpu_state *waits, __s64 result)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct futex_row *row;
	__u64 wait_ns = 0;

	if (!ctx || !state || !slot || !waits)
		return 0;
	/* Woken before it slept, it goes on. */
	if ((slot->flags & FUTEX_WOKEN || slot->op == FUTEX_OP_YIELD) && slot->switches != switches())
		slot->flags |= FUTEX_RAN;
	/* A call that did not sleep waited for nobody: no clock is read for it. */
	if (slot->flags & FUTEX_RAN) {
		__u64 now = clock_now(waits);

		wait_ns = now > slot->begin_ns ? now - slot->begin_ns : 0;
	}
	row = find_futex_row(state, cpu, slot->tgid, slot->address);
	if (!row)
		return 0;
	note_use(row, slot);
	__sync_fetch_and_add(&row->calls, 1);
	if (slot->flags & FUTEX_TIMED)
		__sync_fetch_and_add(&row->timed, 1);
	if (slot->value == 2)
		__sync_fetch_and_add(&row->value_2, 1);
	if (slot->flags & FUTEX_SEM)
		__sync_fetch_and_add(&row->semaphores, 1);
	count_result(row, slot, result, wait_ns);
	if (slot->flags & FUTEX_RAN)
		record_futex_wait(ctx, state, slot, row, wait_ns);
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
	note_use(row, slot);
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
	if (takes_token(&state->wake_tokens, &row->wake_samples, FUTEX_FEW_WAKES))
		write_futex_event(ctx, state, slot, 0, pack_weights(result, 0));
	return 0;
}

/* A wake that had no need of a slot. */
static __noinline int end_plain_wake(void *ctx, struct pt_regs *regs, __s64 result)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct futex_state *state = futex_state_of(cpu);
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	bool compat = is_compat();
	struct futex_slot wake = {};
	struct futex_call call = {};
	long id = call_number(regs);

	if (!ctx || !waits || !state || !recorded(waits, pid_tgid) || !is_futex_call(id, compat))
		return 0;
	read_call(regs, id, compat, &call);
	if (needs_slot(&call))
		return 0;
	if (compat)
		count_futex(state, FUTEX_COUNT_COMPAT);
	wake.tgid = pid_tgid >> 32;
	wake.address = call.address;
	wake.op = call.op;
	end_futex_wake(ctx, state, &wake, result);
	return 0;
}

static __noinline int end_call(void *ctx, struct pt_regs *regs, struct futex_slot *slot, __s64 result, __u32 tid)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct futex_state *state = futex_state_of(cpu);

	if (!ctx || !waits || !state || !slot)
		return 0;
	if (slot->op == FUTEX_OP_WAITV && result > 0) {
		struct futex_call call = {};

		read_entry(regs, is_compat(), result & 127, &call);
		slot->address = call.address;
	}
	if (!is_wait(slot->op)) {
		end_futex_wake(ctx, state, slot, result);
	} else {
		end_futex_wait(ctx, state, slot, waits, result);
		if (result == -ERESTART_RESTARTBLOCK) {
			slot->flags |= FUTEX_PAUSED;
			return 0;
		}
	}
	release_futex_slot(slot, tid);
	return 0;
}

/* ctx: of sys_exit, or of the exit of a system call's function: its registers, and what it returns. */
static __always_inline int leave_call(__u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	long id = call_number(regs);
	struct futex_slot *slot;
	__u32 tid;

	if (!may_be_futex_call(id) && id != NR_RESTART)
		return 0;
	tid = bpf_get_current_pid_tgid();
	slot = find_futex_slot(tid);
	if (!slot || slot->flags & FUTEX_PAUSED) {
		if (id != NR_RESTART)
			end_plain_wake(ctx, regs, ctx[1]);
	} else {
		end_call(ctx, regs, slot, ctx[1], tid);
	}
	return 0;
}

SEC("?tp_btf/sys_exit")
int futex_exit(__u64 *ctx)
{
	return leave_call(ctx);
}

/*
 * Where the kernel allows fentry, the functions of these system calls alone, in place of the tracepoints of all.  They
 * are passed the registers, as the tracepoints are.  As those since 7.x they can be preempted, on every kernel: the
 * kernel skips another task's run meanwhile, and counts it.
 */
#define FUTEX_CALL(name, function)                     \
	SEC("?fentry/" function)                       \
	int futex_enter_##name(__u64 *ctx)             \
	{                                              \
		struct pt_regs *regs = (void *)ctx[0]; \
                                                       \
		enter_call(regs, call_number(regs));   \
		return 0;                              \
	}                                              \
                                                       \
	SEC("?fexit/" function)                        \
	int futex_exit_##name(__u64 *ctx)              \
	{                                              \
		leave_call(ctx);                       \
		return 0;                              \
	}

FUTEX_CALL(futex, "__x64_sys_futex")
FUTEX_CALL(waitv, "__x64_sys_futex_waitv")
FUTEX_CALL(wake, "__x64_sys_futex_wake")
FUTEX_CALL(wait, "__x64_sys_futex_wait")
FUTEX_CALL(requeue, "__x64_sys_futex_requeue")
FUTEX_CALL(time32_32, "__ia32_sys_futex_time32")
FUTEX_CALL(futex_32, "__ia32_sys_futex")
FUTEX_CALL(waitv_32, "__ia32_sys_futex_waitv")
FUTEX_CALL(wake_32, "__ia32_sys_futex_wake")
FUTEX_CALL(wait_32, "__ia32_sys_futex_wait")
FUTEX_CALL(requeue_32, "__ia32_sys_futex_requeue")
FUTEX_CALL(yield, "__do_sys_sched_yield")
FUTEX_CALL(restart, "__do_sys_restart_syscall")

/* Processes may have a futex that they share at addresses of their own: the wake goes by that of the task it wakes. */
static __noinline int join_shared_wake(const struct futex_slot *woken)
{
	struct futex_slot *waker = find_futex_slot((__u32)bpf_get_current_pid_tgid());

	if (!waker || !woken || is_wait(waker->op))
		return 0;
	waker->tgid = woken->tgid;
	waker->address = woken->address;
	return 0;
}

static __noinline int wake_waiting(__u32 tid)
{
	struct futex_slot *slot = find_futex_slot(tid);
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);

	if (!slot || !waits || !is_wait(slot->op) || slot->flags & FUTEX_PAUSED || slot->op == FUTEX_OP_YIELD)
		return 0;
	slot->waking_ns = clock_now(waits);
	slot->waker_tid = bpf_get_current_pid_tgid();
	if (slot->flags & FUTEX_SHARED)
		join_shared_wake(slot);
	slot->flags |= FUTEX_WOKEN;
	return 0;
}

/* Most of those that are woken wait for something else: it is straight, and calls no helper for them. */
SEC("?tp_btf/sched_waking")
int futex_waking(__u64 *ctx)
{
	const struct task_struct *task = (void *)ctx[0];
	const __u32 tid = task->pid;
	const struct futex_slot *slot = futex_slot_at(tid & futex_slot_mask);

	if (slot && (slot->tid == tid || slot->displaced))
		wake_waiting(tid);
	return 0;
}

#include "futex_go.bpf.h"
