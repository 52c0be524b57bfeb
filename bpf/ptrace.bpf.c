// SPDX-License-Identifier: GPL-2.0
/*
 * wait_task_inactive() (record --ptrace): a tracer waits there until its
 * tracee is off its CPU, on every ptrace request; kernel threads that are bound to a
 * CPU pass it too.  sched:sched_wait_task fires at every turn of its loop, on
 * all kernels; the function itself is probed where it can be, and so is
 * ptrace_attach(), which comes before the first such wait.
 */
#include "clock.bpf.h"
#include "filter.bpf.h"
#include "ptrace.h"
#include <bpf/bpf_tracing.h>

SHARED_ARRAY(inactive_slots, struct inactive_slot);
SHARED_ARRAY(inactive_rows, struct inactive_row);
SHARED_ARRAY(inactive_states, struct inactive_state);

static __always_inline struct inactive_state *inactive_state_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&inactive_states, &cpu);
}

/* The slot of tid; claimed if it has none and claim is set. */
static __noinline struct inactive_slot *inactive_slot_of(__u32 tid, bool claim)
{
	struct inactive_slot *slot;
	__u32 index;

	for (int probe = 0; probe < INACTIVE_PROBES; probe++) {
		index = (tid + probe) & (INACTIVE_SLOTS - 1);
		slot = bpf_map_lookup_elem(&inactive_slots, &index);
		if (slot && slot->tid == tid)
			return slot;
	}
	for (int probe = 0; claim && probe < INACTIVE_PROBES; probe++) {
		index = (tid + probe) & (INACTIVE_SLOTS - 1);
		slot = bpf_map_lookup_elem(&inactive_slots, &index);
		if (slot && !slot->tid && !__sync_val_compare_and_swap(&slot->tid, 0, tid))
			return slot;
	}
	return NULL;
}

static __always_inline void name_target(struct inactive_row *row, struct task_struct *target)
{
	row->target_tgid = BPF_CORE_READ(target, tgid);
	bpf_probe_read_kernel_str(row->target_comm, sizeof(row->target_comm),
				  (void *)target + bpf_core_field_offset(struct task_struct, comm));
}

/* The names are of when the pair was first met; target: NULL if it is not at hand. */
static __noinline struct inactive_row *inactive_row_of(__u32 target_tid, struct task_struct *target)
{
	__u32 cpu = bpf_get_smp_processor_id(), tid = bpf_get_current_pid_tgid(), index;
	__u64 key = (__u64)tid << 32 | target_tid;
	struct inactive_state *state = inactive_state_of(cpu);
	struct inactive_row *row;

	for (__u32 probe = 0; probe < INACTIVE_PROBES; probe++) {
		index = (key * 0x9e3779b97f4a7c15ull >> 40) + probe;
		index = cpu * INACTIVE_ROWS + index % (INACTIVE_ROWS - 1);
		row = bpf_map_lookup_elem(&inactive_rows, &index);
		if (!row)
			return NULL;
		if (!row->key && !__sync_val_compare_and_swap(&row->key, 0, key)) {
			row->tgid = bpf_get_current_pid_tgid() >> 32;
			bpf_get_current_comm(row->comm, sizeof(row->comm));
		}
		if (row->key == key && target && !row->target_tgid)
			name_target(row, target);
		if (row->key == key)
			return row;
	}
	if (state)
		__sync_fetch_and_add(&state->no_row, 1);
	index = cpu * INACTIVE_ROWS + INACTIVE_ROWS - 1;
	return bpf_map_lookup_elem(&inactive_rows, &index);
}

static __always_inline struct cpu_state *recording(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);

	if (!state || !state->begin_kinds || state->flags & STATE_SHALLOW ||
	    (state->flags & STATE_FILTERED && !wanted_task()))
		return NULL;
	return state;
}

static __noinline int begin_inactive(struct task_struct *target)
{
	struct inactive_state *state = inactive_state_of(bpf_get_smp_processor_id());
	struct cpu_state *waits = recording();
	struct inactive_slot *slot;

	if (!waits || !state)
		return 0;
	slot = inactive_slot_of((__u32)bpf_get_current_pid_tgid(), true);
	if (!slot) {
		__sync_fetch_and_add(&state->no_slot, 1);
		return 0;
	}
	slot->target = BPF_CORE_READ(target, pid);
	slot->turns = 0;
	inactive_row_of(slot->target, target);
	slot->begin_ns = clock_now(waits);
	return 0;
}

/* By 2^n, from 1 turn on; 0: the target was gone or in another state at once. */
static __always_inline __u32 turn_bucket(__u64 turns)
{
	__u32 bucket = 0;

	for (int i = 0; i < INACTIVE_TURN_COUNTS - 1 && turns; i++, turns >>= 1)
		bucket++;
	return bucket;
}

/* Who ends: its slot and how long it took; NULL if nothing is to be recorded. */
static __always_inline struct inactive_slot *slot_that_ends(struct inactive_state **state, __u64 *wait_ns)
{
	struct cpu_state *waits = recording();
	struct inactive_slot *slot;
	__u64 now;

	*state = inactive_state_of(bpf_get_smp_processor_id());
	if (!waits || !*state)
		return NULL;
	now = clock_now(waits);
	slot = inactive_slot_of((__u32)bpf_get_current_pid_tgid(), false);
	if (!slot) {
		__sync_fetch_and_add(&(*state)->unmatched, 1);
		return NULL;
	}
	*wait_ns = now > slot->begin_ns ? now - slot->begin_ns : 0;
	return slot;
}

static __noinline int end_inactive(__u64 matched)
{
	struct inactive_state *state;
	struct inactive_row *row;
	__u64 wait_ns;
	struct inactive_slot *slot = slot_that_ends(&state, &wait_ns);

	if (!slot)
		return 0;
	row = inactive_row_of(slot->target, NULL);
	if (row) {
		__sync_fetch_and_add(&row->calls, 1);
		__sync_fetch_and_add(&row->wait_ns, wait_ns);
		if (wait_ns > row->max_ns)
			row->max_ns = wait_ns;
		if (slot->turns > row->max_turns)
			row->max_turns = slot->turns;
		if (!matched)
			__sync_fetch_and_add(&row->failed, 1);
	}
	__sync_fetch_and_add(&state->histogram[histogram_bucket(wait_ns) & (HISTOGRAM_BUCKETS - 1)], 1);
	__sync_fetch_and_add(&state->turn_counts[turn_bucket(slot->turns) & (INACTIVE_TURN_COUNTS - 1)], 1);
	__sync_lock_test_and_set(&slot->tid, 0);
	return 0;
}

/* A turn of the loop, the run queue's lock held. */
SEC("?tp_btf/sched_wait_task")
int inactive_turn(__u64 *ctx)
{
	struct task_struct *target = (void *)ctx[0];
	struct inactive_slot *slot;
	struct inactive_row *row;

	if (!recording())
		return 0;
	slot = inactive_slot_of((__u32)bpf_get_current_pid_tgid(), false);
	if (slot)
		slot->turns++;
	row = inactive_row_of(target->pid, target);
	if (!row)
		return 0;
	__sync_fetch_and_add(&row->turns, 1);
	if (target->ptrace)
		__sync_fetch_and_add(&row->traced, 1);
	return 0;
}

/* unsigned long (struct task_struct *, unsigned int), 5.14 to 7.2 */
SEC("?fentry/wait_task_inactive")
int inactive_enter(__u64 *ctx)
{
	begin_inactive((void *)ctx[0]);
	return 0;
}

SEC("?fexit/wait_task_inactive")
int inactive_leave(__u64 *ctx)
{
	__u64 matched = 0;

	bpf_get_func_ret(ctx, &matched);
	end_inactive(matched);
	return 0;
}

SEC("?kprobe")
int inactive_kprobe_enter(struct pt_regs *ctx)
{
	begin_inactive((void *)PT_REGS_PARM1(ctx));
	return 0;
}

SEC("?kretprobe")
int inactive_kprobe_leave(struct pt_regs *ctx)
{
	end_inactive(PT_REGS_RC(ctx));
	return 0;
}

/* The caller is in one of both functions at a time: they share its slot. */
static __noinline int end_attach(long error)
{
	struct inactive_state *state;
	struct inactive_row *row;
	__u64 wait_ns;
	struct inactive_slot *slot = slot_that_ends(&state, &wait_ns);

	if (!slot)
		return 0;
	row = inactive_row_of(slot->target, NULL);
	if (row) {
		__sync_fetch_and_add(&row->attaches, 1);
		__sync_fetch_and_add(&row->attach_ns, wait_ns);
		if (wait_ns > row->attach_max_ns)
			row->attach_max_ns = wait_ns;
	}
	if (error)
		__sync_fetch_and_add(&state->attach_failed, 1);
	__sync_fetch_and_add(&state->attach_histogram[histogram_bucket(wait_ns) & (HISTOGRAM_BUCKETS - 1)], 1);
	__sync_lock_test_and_set(&slot->tid, 0);
	return 0;
}

/* int (struct task_struct *, long, unsigned long, unsigned long), 3.4 to 7.3 */
SEC("?fentry/ptrace_attach")
int attach_enter(__u64 *ctx)
{
	begin_inactive((void *)ctx[0]);
	return 0;
}

SEC("?fexit/ptrace_attach")
int attach_leave(__u64 *ctx)
{
	__u64 error = 0;

	bpf_get_func_ret(ctx, &error);
	end_attach((int)error);
	return 0;
}

SEC("?kprobe")
int attach_kprobe_enter(struct pt_regs *ctx)
{
	begin_inactive((void *)PT_REGS_PARM1(ctx));
	return 0;
}

SEC("?kretprobe")
int attach_kprobe_leave(struct pt_regs *ctx)
{
	end_attach((int)PT_REGS_RC(ctx));
	return 0;
}
