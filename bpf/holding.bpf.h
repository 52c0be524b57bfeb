/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings of turns: contended releases and ends of waits, for --holders
 * alone.  Without it the verifier drops all of this.
 */
#ifndef HOLDING_BPF_H
#define HOLDING_BPF_H

#include "event.bpf.h"
#include "state.bpf.h"
#include "compat.bpf.h"
#include "current.bpf.h"

static __always_inline struct release_state *release_state_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&release_states, &cpu);
}

/* The next record of the CPU's ring, its sequence taken away; NULL before the maps have their sizes. */
static __always_inline struct holding_record *begin_holding(struct release_state *state, __u32 cpu, __u64 *position)
{
	__u32 index;
	struct holding_record *holding;

	/* Atomic: unlocks in interrupts come between. */
	*position = __sync_fetch_and_add(&state->holdings, 1);
	index = cpu * (holding_mask + 1) + (*position & holding_mask);
	holding = bpf_map_lookup_elem(&holding_records, &index);
	if (holding)
		publish_long(&holding->sequence, 0);
	return holding;
}

/*
 * Tells the collector when a part of the ring was written.  The event is this CPU's own and takes no lock; who waits for
 * it is woken by an interrupt of this CPU, which comes when the lock's holder lets interrupts in.
 */
static __always_inline void end_holding(void *ctx, struct holding_record *holding, __u64 position)
{
	publish_long(&holding->sequence, position + 1);
	if (wake_mask && ((position + 1) & wake_mask) == 0)
		bpf_perf_event_output(ctx, &holding_wakes, BPF_F_CURRENT_CPU, &position, sizeof(position));
}

/* The end of a wait, recorded with the lock held: one line of this CPU's own. */
static __always_inline void write_holding(void *ctx, __u64 ids, __u64 lock, __u64 begin_ns, __u64 end_ns, __u32 kind,
					  __u32 owner)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct release_state *state = release_state_of(cpu);
	struct holding_record *holding;
	__u64 position;

	if (!state)
		return;
	holding = begin_holding(state, cpu, &position);
	if (!holding)
		return;
	holding->time_ns = end_ns;
	holding->lock = lock;
	holding->begin_ns = begin_ns;
	holding->tid = ids;
	holding->tgid = ids >> 32;
	holding->owner_tid = owner == ~0u ? 0 : owner;
	holding->kind = kind;
	holding->flags = owner == ~0u ? HOLDING_READERS : 0;
	holding->stack = 0;
	end_holding(ctx, holding, position);
}

static __noinline int record_wait_holding(void *ctx, const struct ended_wait *wait, __u32 owner)
{
	if (!ctx || !wait)
		return 0;
	write_holding(ctx, bpf_get_current_pid_tgid(), wait->lock, wait->begin_ns, wait->begin_ns + wait->wait_ns,
		      wait->kind, owner);
	return 0;
}

/* Of the CPU's only spinning wait, which says when it began. */
static __noinline int record_plain_holding(void *ctx, const struct cpu_state *state, __u64 wait_ns)
{
	if (!record_holdings || !ctx || !state || state->flags & STATE_SHALLOW)
		return 0;
	write_holding(ctx, current_ids(state), state->spin[0].lock, state->spin[0].begin_ns,
		      state->spin[0].begin_ns + wait_ns, state->spin[0].kind, 0);
	return 0;
}

/* Test-and-set locks: a line that waiters and releasing CPUs share, for want of a bit in the lock word. */
static __always_inline void add_waiter(__u64 lock, __u32 change)
{
	__u32 index = lock_hash(lock, WAITER_COUNTS);
	struct waiter_count *count;

	if (!count_waiters || !lock)
		return;
	count = bpf_map_lookup_elem(&waiter_counts, &index);
	if (count)
		__sync_fetch_and_add(&count->waiters, change);
}

#endif /* HOLDING_BPF_H */
