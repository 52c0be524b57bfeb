// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "kernel_btf.h"
#include "live_events.h"
#include "live_memory.h"
#include "live_sums.h"
#include "lockline.skel.h"
#include "message.h"

struct live_memory {
	const struct options *options;
	const struct plan *plan;
	struct recording *recording;
	struct locks *locks;
	const struct symbols *symbols;
	struct mapped_array states, records;
	struct live_events events;
	struct live_sums sums;
	__u32 cpus;
	__u64 *read; /* per CPU: position in its ring */
	__u64 overwritten;
	bool stopped;
};

int live_memory_resize(struct lockline_bpf *bpf, __u32 cpus, bool wanted)
{
	int err = bpf_program__set_autoload(bpf->progs.memory_sample, wanted);

	err = err ?: bpf_map__set_max_entries(bpf->maps.memory_states, wanted ? cpus : 1);
	return err ?: bpf_map__set_max_entries(bpf->maps.memory_records, wanted ? cpus * MEMORY_RING_SAMPLES : 1);
}

static int open_memory(struct live_memory *memory, struct plan *plan, struct probes *probes)
{
	int program = bpf_program__fd(probes->bpf->progs.memory_sample), err;

	memory->cpus = plan->possible_cpus;
	memory->read = calloc(memory->cpus, sizeof(*memory->read));
	if (!memory->read)
		return -ENOMEM;
	err = maps_map(&memory->states, probes->bpf->maps.memory_states);
	err = err ?: maps_map(&memory->records, probes->bpf->maps.memory_records);
	err = err ?: live_sums_open(&memory->sums, memory->symbols, memory->cpus);
	if (err)
		return err;
	err = live_events_open(&memory->events, &plan->pmu, memory->options->hitm_rate, &memory->options->cpus,
			       memory->cpus, program);
	if (*memory->events.failed)
		message("memory samples: %s; the recording goes on without these", memory->events.failed);
	if (err) {
		plan_give_up(plan, HITM_SIGNAL, "the kernel refuses the events", err);
		return err == -ENOMEM ? err : 0;
	}
	if (memory->events.rate < memory->options->hitm_rate)
		message("memory samples: %u a second, as perf_event_max_sample_rate allows", memory->events.rate);
	probes->programs[probes->program_count++] = (struct own_program){
		.name = bpf_program__name(probes->bpf->progs.memory_sample), .signal = HITM_SIGNAL, .fd = program};
	return 0;
}

int live_memory_open(struct live_memory **out, const struct options *options, struct plan *plan, struct probes *probes,
		     struct recording *recording, struct locks *locks, const struct symbols *symbols)
{
	struct live_memory *memory;
	int err;

	*out = NULL;
	if (!plan->hitm) {
		/* Asked for, and not to be had: why is in the plan. */
		for (int i = 0; options->hitm && i < plan->probe_count; i++)
			if (!strcmp(plan->probes[i].signal, HITM_SIGNAL))
				message("no memory samples: %s; the recording goes on without them",
					plan->probes[i].reason);
		return 0;
	}
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	memory->options = options;
	memory->plan = plan;
	memory->recording = recording;
	memory->locks = locks;
	memory->symbols = symbols;
	err = open_memory(memory, plan, probes);
	if (!err && memory->events.count)
		*out = memory;
	else
		live_memory_close(memory);
	return err;
}

static const struct memory_state *state_of(const struct live_memory *memory, __u32 cpu)
{
	return (const struct memory_state *)memory->states.data + cpu;
}

static int drain_cpu(struct live_memory *memory, __u32 cpu)
{
	__u64 written = __atomic_load_n(&state_of(memory, cpu)->records, __ATOMIC_ACQUIRE),
	      position = memory->read[cpu];
	int err = 0;

	if (written - position > MEMORY_RING_SAMPLES) {
		memory->overwritten += written - position - MEMORY_RING_SAMPLES;
		position = written - MEMORY_RING_SAMPLES;
	}
	for (; !err && position < written; position++) {
		const struct memory_record *record = (const struct memory_record *)memory->records.data +
						     (size_t)cpu * MEMORY_RING_SAMPLES +
						     (position & (MEMORY_RING_SAMPLES - 1));
		__u64 before = __atomic_load_n(&record->sequence, __ATOMIC_ACQUIRE), after;
		struct memory_record copy;

		if (before < position + 1)
			break; /* being written */
		copy = *record;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = __atomic_load_n(&record->sequence, __ATOMIC_RELAXED);
		if (before == position + 1 && after == before)
			err = live_sums_add(&memory->sums, cpu, &copy);
		else
			memory->overwritten++;
	}
	memory->read[cpu] = position;
	return err;
}

int live_memory_drain(struct live_memory *memory)
{
	int err = 0;

	if (!memory)
		return 0;
	for (__u32 cpu = 0; !err && cpu < memory->cpus; cpu++)
		err = drain_cpu(memory, cpu);
	if (!memory->stopped)
		live_events_drain(&memory->events);
	return err;
}

void live_memory_stop(struct live_memory *memory)
{
	if (!memory || memory->stopped)
		return;
	memory->stopped = true;
	live_events_stop(&memory->events);
}

static __s64 lock_id(void *context, __u64 address, __u32 kind)
{
	struct live_memory *memory = context;
	const struct lock_hint hint = {.address = address, .kind = kind};
	const struct known_lock *lock = locks_find(memory->locks, address);
	int err = 0;

	if (!lock)
		lock = locks_meet(memory->locks, &hint, &err);
	if (err)
		return err;
	return lock ? lock->id : OTHER_LOCK;
}

static int write_loss(const struct live_memory *memory, const char *name, __u64 count, const char *meaning,
		      const char *severity)
{
	return recording_run(memory->recording, PUT_LOSS, "titt", name, (__s64)count, meaning, severity);
}

static int write_losses(const struct live_memory *memory, const struct memory_state *sum,
			const struct memory_rank *rank)
{
	int err = write_loss(memory, "memory_without_source", sum->without_source,
			     "memory samples without a data source: of operations on no memory, or the PMU does not "
			     "tell",
			     "info");

	err = err
		      ?: write_loss(memory, "memory_without_address", sum->without_address,
				    "memory samples that do not tell the address", "info");
	err = err
		      ?: write_loss(memory, "memory_nested", sum->nested,
				    "memory samples inside of another one's program", "loss");
	err = err
		      ?: write_loss(memory, "memory_overwritten", memory->overwritten,
				    "memory samples that were overwritten before they were read", "loss");
	err = err
		      ?: write_loss(memory, "memory_throttled", memory->events.throttled,
				    "times that the kernel stopped the memory events of a CPU until its next tick",
				    "loss");
	err = err
		      ?: write_loss(memory, "memory_refused", memory->sums.lines.refused,
				    "memory samples beyond what the sums may take", "loss");
	return err
		       ?: write_loss(memory, "records_left_out", rank->records_left_out,
				     "memory samples of lines that are not kept", "info");
}

static int write_meta(const struct live_memory *memory, const struct memory_state *sum)
{
	struct recording *recording = memory->recording;
	int err = recording_run(recording, PUT_META, "ti", "memory_samples", (__s64)sum->samples);

	err = err ?: recording_run(recording, PUT_META, "ti", "memory_sample_rate", (__s64)memory->events.rate);
	err = err ?: recording_run(recording, PUT_META, "ti", "memory_enabled_ns", (__s64)memory->events.enabled_ns);
	return err ?: recording_run(recording, PUT_META, "ti", "memory_running_ns", (__s64)memory->events.running_ns);
}

int live_memory_write(struct live_memory *memory)
{
	const struct memory_locks locks = {.id = lock_id, .context = memory};
	struct memory_rank rank = {};
	struct memory_state sum = {};
	int err;

	if (!memory)
		return 0;
	err = live_memory_drain(memory);
	if (!err && memory->sums.lines.added)
		err = kernel_btf_put(memory->recording);
	for (__u32 cpu = 0; cpu < memory->cpus; cpu++) {
		const struct memory_state *state = state_of(memory, cpu);

		sum.samples += state->samples;
		sum.without_source += state->without_source;
		sum.without_address += state->without_address;
		sum.nested += state->nested;
	}
	/* As c2c_decode_stats() counts them. */
	memory->sums.lines.totals.nr_entries += sum.without_source + sum.without_address;
	memory->sums.lines.totals.noparse += sum.without_source;
	err = err ?: live_sums_write(&memory->sums, memory->recording, &memory->plan->pmu, &locks, &rank);
	err = err ?: write_losses(memory, &sum, &rank);
	err = err ?: write_meta(memory, &sum);
	memory_rank_free(&rank);
	if (!err && sum.samples && sum.without_source == sum.samples)
		message("memory samples: none of %llu had a data source: either these are no memory events, or the "
			"machine does not tell; lockline watch sees a line without them",
			sum.samples);
	return err;
}

void live_memory_close(struct live_memory *memory)
{
	if (!memory)
		return;
	live_events_close(&memory->events);
	maps_unmap(&memory->states);
	maps_unmap(&memory->records);
	live_sums_close(&memory->sums);
	free(memory->read);
	free(memory);
}
