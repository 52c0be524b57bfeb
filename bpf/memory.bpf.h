/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A memory sample: into this CPU's ring, with the wait that was in flight.
 *
 * A ring, and not a table of sums: the rate is bounded (samples a second), so
 * that the collector keeps up; each sample keeps its data source as the PMU
 * gave it, so that the one decoder, that of imports, judges it; and a table
 * would fill with the lines that nobody shares.
 *
 * Runs in NMIs.  It writes only memory_states and memory_records, which no
 * other program touches, and reads the waits in flight as their CPU's programs
 * may have left them half way: a spinning wait counts once its begin is set, a
 * sleeping one once its depth tells of it.
 */
#ifndef MEMORY_BPF_H
#define MEMORY_BPF_H

#include "clock.bpf.h"
#include "filter.bpf.h"
#include "in_flight.bpf.h"
#include "memory.h"

/* perf_mem_data_src.mem_op: anything beyond PERF_MEM_OP_NA. */
#define MEMORY_OPERATIONS 0x1e

SHARED_ARRAY(memory_states, struct memory_state);
SHARED_ARRAY(memory_records, struct memory_record);

/* What a sample tells; 0 is what it does not. */
struct memory_sample {
	__u64 address;
	__u64 ip;
	__u64 data_src;
	__u64 physical;
	__u32 weight;
	__u32 flags; /* MEMORY_INTERRUPTS_* */
};

static __always_inline void write_sample(const struct cpu_state *waits, struct memory_state *state, __u32 cpu,
					 const struct memory_sample *sample)
{
	__u64 position = state->records++, pid_tgid = bpf_get_current_pid_tgid(), lock;
	__u8 kind;
	__u32 index = cpu * MEMORY_RING_SAMPLES + (position & (MEMORY_RING_SAMPLES - 1));
	struct memory_record *record = bpf_map_lookup_elem(&memory_records, &index);

	if (!record)
		return;
	__sync_lock_test_and_set(&record->sequence, 0);
	record->time_ns = clock_now(waits);
	record->address = sample->address;
	record->ip = sample->ip;
	record->data_src = sample->data_src;
	record->physical = sample->physical;
	record->weight = sample->weight;
	record->flags = sample->flags;
	record->tid = pid_tgid;
	record->tgid = pid_tgid >> 32;
	record->lock = 0;
	record->kind = 0;
	if (wait_in_flight(cpu, pid_tgid, &lock, &kind)) {
		record->lock = lock;
		record->kind = kind;
	}
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	__sync_lock_test_and_set(&record->sequence, position + 1);
}

static __always_inline void judge_sample(const struct cpu_state *waits, struct memory_state *state, __u32 cpu,
					 const struct memory_sample *sample)
{
	if (waits->flags & STATE_FILTERED && !wanted_task()) {
		state->filtered++;
		return;
	}
	state->samples++;
	if (!(sample->data_src & MEMORY_OPERATIONS))
		state->without_source++;
	else if (!sample->address)
		state->without_address++;
	else
		write_sample(waits, state, cpu, sample);
}

static __always_inline void take_memory_sample(const struct memory_sample *sample)
{
	__u32 cpu = bpf_get_smp_processor_id();
	const struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct memory_state *state = bpf_map_lookup_elem(&memory_states, &cpu);

	/* Not before the recording begins, nor after its end, nor on a CPU that is left out. */
	if (!waits || !state || !waits->begin_kinds)
		return;
	/* The kernel lets no sample of a PMU run into another's; one of a timer may be run into. */
	if (__sync_lock_test_and_set(&state->busy, 1)) {
		__sync_fetch_and_add(&state->nested, 1);
		return;
	}
	judge_sample(waits, state, cpu, sample);
	__sync_lock_test_and_set(&state->busy, 0);
}

#endif /* MEMORY_BPF_H */
