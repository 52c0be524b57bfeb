// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/libbpf.h>

#include "base/ring.h"
#include "base/clock.h"
#include "kernel/kernel_btf.h"
#include "memory/live_events.h"
#include "memory/live_memory.h"
#include "memory/live_sums.h"
#include "lockline.skel.h"
#include "cli/message.h"
#include "recording/recording_rows.h"

/* Writes take one part in so many of a CPU's time. */
#define WRITE_SHARE 50

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
	struct ring_losses losses;
	bool stopped;
	__u64 begin_ns;    /* of the last write */
	__u64 last_cpu_ns; /* that it took, before its commit; 0: it is accounted */
	__u64 next_ns;     /* not again before */
	__u64 writes;
	__u64 cpu_ns; /* of all of them */
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

	memory->cpus = probes->maps.sizing->cpus;
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
		plan_give_up(plan, SIGNAL_HITM, "the kernel refuses the events", err);
		return err == -ENOMEM ? err : 0;
	}
	/* Packing them takes longer than the rings of samples last. */
	err = kernel_btf_put(memory->recording);
	if (err)
		return err;
	if (memory->events.rate < memory->options->hitm_rate)
		message("memory samples: %u a second, as perf_event_max_sample_rate allows", memory->events.rate);
	probes->programs[probes->program_count++] =
		(struct own_program){.name = bpf_program__name(probes->bpf->progs.memory_sample),
				     .signal = signal_name(SIGNAL_HITM),
				     .fd = program};
	return 0;
}

int live_memory_open(struct live_memory **out, const struct options *options, struct plan *plan, struct probes *probes,
		     struct recording *recording, struct locks *locks, const struct symbols *symbols)
{
	struct live_memory *memory;
	int err;

	*out = NULL;
	if (!plan->hitm) {
		/* Asked for, and not available: the plan says why. */
		if (options->hitm)
			message("no memory samples: %s; the recording goes on without them",
				plan_probe(plan, SIGNAL_HITM)->reason);
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
	const struct ring ring = {
		.records = (const struct memory_record *)memory->records.data + (size_t)cpu * MEMORY_RING_SAMPLES,
		.written = &state_of(memory, cpu)->records,
		.count = MEMORY_RING_SAMPLES,
		.bytes = sizeof(struct memory_record),
		.sequence = offsetof(struct memory_record, sequence),
	};
	struct memory_record record;
	struct ring_pass pass;
	int err = 0;

	ring_begin(&pass, &ring, memory->read[cpu], &memory->losses);
	while (!err && ring_next(&pass, &record, &memory->losses))
		err = live_sums_add(&memory->sums, cpu, &record);
	memory->read[cpu] = pass.position;
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

/* Of one moment: all samples that the program let in are in one of these, and in the sums. */
struct counted {
	struct memory_state state; /* sums over the CPUs */
	__u64 overwritten;
	__u64 refused;
};

static int write_loss(const struct live_memory *memory, const char *name, __u64 count, const char *meaning,
		      const char *severity)
{
	return recording_put(memory->recording, loss, .name = name, .count = count, .meaning = meaning,
			     .severity = severity);
}

static int write_losses(const struct live_memory *memory, const struct counted *counted, const struct memory_rank *rank)
{
	int err = write_loss(
		memory, "memory_without_source", counted->state.without_source,
		"memory samples without a data source: the operation used no memory, or the PMU does not say", "info");

	err = err
		      ?: write_loss(memory, "memory_without_address", counted->state.without_address,
				    "memory samples without an address", "info");
	err = err
		      ?: write_loss(memory, "memory_nested", counted->state.nested,
				    "memory samples skipped: they came while another one was being handled", "loss");
	err = err
		      ?: write_loss(memory, "memory_overwritten", counted->overwritten,
				    "memory samples that were overwritten before they were read", "loss");
	err = err
		      ?: write_loss(memory, "memory_throttled", memory->events.throttled,
				    "times that the kernel stopped the memory events of a CPU until its next tick",
				    "loss");
	err = err
		      ?: write_loss(memory, "memory_refused", counted->refused,
				    "memory samples not kept: the sums have reached their memory limit", "loss");
	return err
		       ?: write_loss(memory, "records_left_out", rank->records_left_out,
				     "memory samples of lines that are not kept", "info");
}

static int put_number(const struct live_memory *memory, const char *name, __u64 value)
{
	return recording_put_number(memory->recording, name, value);
}

static int write_meta(struct live_memory *memory, const struct counted *counted, __u64 now_ns)
{
	int err;

	live_events_times(&memory->events);
	err = put_number(memory, "memory_samples", counted->state.samples);
	err = err ?: put_number(memory, "memory_sample_rate", memory->events.rate);
	err = err ?: put_number(memory, "memory_enabled_ns", memory->events.enabled_ns);
	err = err ?: put_number(memory, "memory_running_ns", memory->events.running_ns);
	return err ?: put_number(memory, "memory_end_ns", now_ns);
}

/* Of the writes before this one, and so without the last. */
static int write_cost(const struct live_memory *memory)
{
	int err = recording_put(memory->recording, cost, .name = "memory_writes", .value = memory->writes,
				.unit = "writes");

	return err
		       ?: recording_put(memory->recording, cost, .name = "memory_write_cpu_ns", .value = memory->cpu_ns,
					.unit = "ns");
}

/* While samples come in, as many as were read from the rings; at the end, as the program counted them. */
static void sum_up(const struct live_memory *memory, struct counted *counted, bool last)
{
	struct memory_state *sum = &counted->state;
	__u64 read = 0, samples = 0;

	*counted = (struct counted){.overwritten = memory->losses.overwritten + memory->losses.torn,
				    .refused = memory->sums.lines.refused};
	for (__u32 cpu = 0; cpu < memory->cpus; cpu++) {
		const struct memory_state *state = state_of(memory, cpu);

		read += memory->read[cpu];
		samples += state->samples;
		sum->without_source += state->without_source;
		sum->without_address += state->without_address;
		sum->nested += state->nested;
	}
	sum->samples = last ? samples : read + sum->without_source + sum->without_address;
}

static int write_tables(struct live_memory *memory, const struct memory_turn *turn)
{
	const struct memory_locks locks = {.id = lock_id, .context = memory};
	struct memory_counts uncounted = {};
	const struct live_sums_write to = {.recording = memory->recording,
					   .pmu = &memory->plan->pmu,
					   .locks = &locks,
					   .uncounted = &uncounted,
					   .turn = *turn};
	__u64 begin_ns = clock_ns(CLOCK_MONOTONIC);
	struct memory_rank rank = {};
	struct counted counted;
	/* Up to the begin at least: what comes while the rings are read may be in, too. */
	int err = live_memory_drain(memory);

	err = err ?: memory_lines_finish(&memory->sums.lines);
	sum_up(memory, &counted, turn->last);
	/* As c2c_decode_stats() counts them. */
	uncounted.nr_entries = counted.state.without_source + counted.state.without_address;
	uncounted.noparse = counted.state.without_source;
	err = err ?: live_sums_write(&memory->sums, &to, &rank);
	err = err ?: write_losses(memory, &counted, &rank);
	err = err ?: write_meta(memory, &counted, begin_ns);
	err = err ?: write_cost(memory);
	memory_rank_free(&rank);
	if (!err && turn->last && counted.state.samples && counted.state.without_source == counted.state.samples)
		message("memory samples: none of %llu had a data source: either these are not memory events, or this "
			"machine does not say; lockline watch works without them",
			counted.state.samples);
	return err;
}

/* What happens in a pause is no part of the write. */
struct paused {
	int (*pause)(void *context);
	void *context;
	__u64 cpu_ns;
};

static int pause_write(void *context)
{
	struct paused *paused = context;
	__u64 cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err = paused->pause(paused->context);

	paused->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	return err;
}

int live_memory_write(struct live_memory *memory, int (*pause)(void *context), void *context, bool last)
{
	struct paused paused = {.pause = pause, .context = context};
	const struct memory_turn turn = {.pause = last ? NULL : pause_write, .context = &paused, .last = last};
	__u64 now_ns = clock_ns(CLOCK_MONOTONIC), cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err;

	if (!memory || (!last && now_ns < memory->next_ns))
		return 0;
	memory->begin_ns = now_ns;
	err = write_tables(memory, &turn);
	memory->last_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns - paused.cpu_ns;
	return err;
}

void live_memory_committed(struct live_memory *memory, __u64 cpu_ns)
{
	if (!memory || !memory->last_cpu_ns)
		return;
	memory->last_cpu_ns += cpu_ns;
	memory->next_ns = memory->begin_ns + memory->last_cpu_ns * WRITE_SHARE;
	memory->cpu_ns += memory->last_cpu_ns;
	memory->writes++;
	memory->last_cpu_ns = 0;
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
