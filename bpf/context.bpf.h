/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rings of relief records (record --episodes, --flight): a few stores into
 * one cache line of this CPU's own, whatever happens.
 *
 * Overwriting: nothing waits for a reader, and the collector reads only what
 * surrounds a long wait.
 */
#ifndef CONTEXT_BPF_H
#define CONTEXT_BPF_H

#include "clock.bpf.h"
#include "compat.bpf.h"

#define MOST_CPUS 8192 /* NR_CPUS can be no more */

/* The next record of the CPU's ring, its sequence taken away; NULL before the maps have their sizes. */
static __always_inline struct context_record *begin_context(__u32 cpu, __u64 *position)
{
	struct context_state *state = bpf_map_lookup_elem(&context_states, &cpu);
	struct context_record *record;
	__u32 index;

	if (!state)
		return NULL;
	/* Atomic: interrupts come between. */
	*position = __sync_fetch_and_add(&state->records, 1);
	index = cpu * (context_mask + 1) + (*position & context_mask);
	record = bpf_map_lookup_elem(&context_records, &index);
	if (record)
		__sync_lock_test_and_set(&record->sequence, 0);
	return record;
}

static __always_inline void write_context(struct context_record *record, struct cpu_state *state, __u32 type,
					  __u32 value)
{
	record->time_ns = clock_now(state);
	record->type = type;
	record->value = value;
	record->tid = bpf_get_current_pid_tgid();
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	record->other_tid = 0;
	record->name[0] = 0;
}

/* What current does; other: NULL or a task; name: NULL or a string in the kernel. */
static __noinline int record_context(__u32 type, __u32 value, struct task_struct *other, const char *name)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct context_record *record;
	__u64 position = 0;

	/* -C leaves no CPU out here: what relieves a wait may come from any. */
	record = state && !(state->flags & STATE_SHALLOW) ? begin_context(cpu, &position) : NULL;
	if (!record)
		return 0;
	write_context(record, state, type, value);
	if (other) {
		record->other_tid = BPF_CORE_READ(other, pid);
		bpf_probe_read_kernel(record->name, sizeof(record->name),
				      (void *)other + bpf_core_field_offset(other->comm));
	} else if (name) {
		bpf_probe_read_kernel_str(record->name, sizeof(record->name), name);
	}
	__sync_lock_test_and_set(&record->sequence, position + 1);
	return 0;
}

/* IPIs to those CPUs of a mask that are first and the IPI_CPUS - 1 after it. */
static __noinline int record_ipis_from(const void *mask, __u32 first)
{
	__u32 cpu = bpf_get_smp_processor_id(), bytes = bpf_core_type_size(struct cpumask) - first / 8;
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);
	__u64 position = 0, bits[IPI_CPUS / 64] = {};
	struct context_record *record;

	if (!state || !mask)
		return 0;
	if (bytes > sizeof(bits))
		bytes = sizeof(bits);
	bpf_probe_read_kernel(bits, bytes & 31, mask + first / 8);
	/* One record at least tells that there was an IPI; the others are for CPUs alone. */
	if (first && !(bits[0] | bits[1]))
		return 0;
	record = begin_context(cpu, &position);
	if (!record)
		return 0;
	write_context(record, state, CONTEXT_IPIS_SENT, first);
	__builtin_memcpy(record->name, bits, sizeof(bits));
	__sync_lock_test_and_set(&record->sequence, position + 1);
	return 0;
}

/* IPIs to all CPUs of a mask. */
static __noinline int record_ipis(const void *mask)
{
	__u32 cpu = bpf_get_smp_processor_id(), size = bpf_core_type_size(struct cpumask) * 8;
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);

	if (!state || state->flags & STATE_SHALLOW)
		return 0;
	record_ipis_from(mask, 0);
	for (__u32 first = IPI_CPUS; first < MOST_CPUS; first += IPI_CPUS) {
		if (first >= context_cpus || first >= size)
			break;
		record_ipis_from(mask, first);
	}
	return 0;
}

#endif /* CONTEXT_BPF_H */
