// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "base/ring.h"
#include "base/clock.h"
#include "base/online_cpus.h"
#include "bpf/clocksource.h"
#include "clocksource/clock_reads.h"
#include "base/histogram_blob.h"
#include "lockline.skel.h"
#include "probes/maps.h"
#include "cli/message.h"
#include "base/small_file.h"
#include "recording/recording_rows.h"

#define TSC_TYPE "/sys/bus/event_source/devices/msr/type"

/* Long enough for three digits of the counter's rate, with a clock that moves at each tick. */
#define CALIBRATION_NS 200000000ull

struct clock_reads {
	struct recording *recording;
	struct stacks stacks;
	struct mapped_array states, samples;
	const char *function;
	int *counters; /* by CPU; -1: none */
	int counter_map;
	struct online_cpus online;
	bool timed;
	__u32 cpus;
	__u64 *read;              /* per CPU: position in its ring */
	struct ring_aside *aside; /* per CPU */
	struct ring_losses losses;
};

/* The counter of cycles on one CPU, which a program may read; negative errno. */
static int open_counter(int cpu)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	char type[16];
	int fd;

	if (first_line(TSC_TYPE, type, sizeof(type)))
		return -ENODEV;
	attr.type = strtoul(type, NULL, 10);
	attr.config = 0; /* tsc */
	fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* clock_cycles_mult; 0: there is not a counter. */
static __u64 calibrate(void)
{
	const struct timespec pause = {.tv_nsec = CALIBRATION_NS};
	__u64 begin, from = 0, to = 0, ns;
	int fd = open_counter(0);

	if (fd < 0)
		return 0;
	begin = now_ns();
	if (read(fd, &from, sizeof(from)) != sizeof(from))
		from = 0;
	nanosleep(&pause, NULL);
	ns = now_ns() - begin;
	if (read(fd, &to, sizeof(to)) != sizeof(to))
		to = 0;
	close(fd);
	return to > from ? (ns << CLOCK_CYCLES_SHIFT) / (to - from) : 0;
}

int clock_reads_resize(struct lockline_bpf *bpf, __u32 cpus, const char *function)
{
	int err = bpf_map__set_max_entries(bpf->maps.clock_states, function ? cpus : 1);

	err = err ?: bpf_map__set_max_entries(bpf->maps.clock_reads, function ? cpus * CLOCK_RING_READS : 1);
	err = err ?: bpf_map__set_max_entries(bpf->maps.cycle_counters, cpus);
	bpf->rodata->clock_cycles_mult = function ? calibrate() : 0;
	return err;
}

/* That of one CPU, where the programs find it; 0 too if the CPU is not online. */
static int add_counter(struct clock_reads *reads, __u32 cpu)
{
	reads->counters[cpu] = open_counter(cpu);
	if (reads->counters[cpu] < 0)
		return reads->counters[cpu] == -ENODEV ? 0 : reads->counters[cpu];
	return bpf_map_update_elem(reads->counter_map, &cpu, &reads->counters[cpu], BPF_ANY) ? -errno : 0;
}

static int open_counters(struct clock_reads *reads, const struct lockline_bpf *bpf)
{
	int err = 0;

	reads->counter_map = bpf_map__fd(bpf->maps.cycle_counters);
	online_cpus_open(&reads->online, ONLINE_CPUS);
	for (__u32 cpu = 0; !err && cpu < reads->cpus; cpu++)
		err = add_counter(reads, cpu);
	return err;
}

/* Without a counter its reads are counted, and have no length. */
static void cpu_came(void *context, __u32 cpu)
{
	struct clock_reads *reads = context;

	if (reads->counters[cpu] < 0)
		add_counter(reads, cpu);
}

/* A counter stays dead when its CPU comes back. */
static void cpu_gone(void *context, __u32 cpu)
{
	struct clock_reads *reads = context;

	if (reads->counters[cpu] < 0)
		return;
	bpf_map_delete_elem(reads->counter_map, &cpu);
	close(reads->counters[cpu]);
	reads->counters[cpu] = -1;
}

int clock_reads_open(struct clock_reads **out, struct lockline_bpf *bpf, __u32 cpus, struct recording *recording,
		     const struct stacks *stacks, const char *function)
{
	struct clock_reads *reads = calloc(1, sizeof(*reads));
	int err = -ENOMEM;

	if (!reads)
		return err;
	reads->recording = recording;
	reads->stacks = *stacks;
	reads->function = function;
	reads->cpus = cpus;
	reads->online.fd = -1;
	reads->timed = bpf->rodata->clock_cycles_mult;
	reads->counters = malloc(cpus * sizeof(*reads->counters));
	reads->read = calloc(cpus, sizeof(*reads->read));
	reads->aside = calloc(cpus, sizeof(*reads->aside));
	for (__u32 cpu = 0; reads->counters && cpu < cpus; cpu++)
		reads->counters[cpu] = -1;
	if (reads->counters && reads->read && reads->aside) {
		err = maps_map(&reads->states, bpf->maps.clock_states);
		err = err ?: maps_map(&reads->samples, bpf->maps.clock_reads);
		if (!err && reads->timed)
			err = open_counters(reads, bpf);
	}
	if (err)
		clock_reads_close(reads);
	else
		*out = reads;
	return err;
}

void clock_reads_close(struct clock_reads *reads)
{
	if (!reads)
		return;
	for (__u32 cpu = 0; reads->counters && cpu < reads->cpus; cpu++)
		if (reads->counters[cpu] >= 0)
			close(reads->counters[cpu]);
	maps_unmap(&reads->states);
	maps_unmap(&reads->samples);
	online_cpus_close(&reads->online);
	free(reads->counters);
	ring_free_asides(reads->aside, reads->cpus);
	free(reads->read);
	free(reads);
}

static struct clock_state *state_of(const struct clock_reads *reads, __u32 cpu)
{
	return (struct clock_state *)reads->states.data + cpu;
}

static int store_sample(struct clock_reads *reads, const struct clock_read *sample)
{
	char comm[sizeof(sample->comm) + 1] = "";
	const __u64 *frames = sample->kernel;
	int count = sample->kernel_frames < STACK_FRAMES ? sample->kernel_frames : STACK_FRAMES;
	__s64 task, stack;
	int err;

	memcpy(comm, sample->comm, sizeof(sample->comm));
	task = recording_find_task(reads->recording, sample->tid, sample->tgid, comm);
	if (!task) {
		err = recording_put(reads->recording, waiter, .tid = sample->tid, .tgid = sample->tgid, .comm = comm,
				    .cgroup = 0);
		task = err ?: recording_find_task(reads->recording, sample->tid, sample->tgid, comm);
	}
	count = count > 0 ? stacks_trim(reads->stacks.symbols, &frames, count) : 0;
	stack = stacks_id(&reads->stacks, 0, frames, count);
	if (task < 0 || stack < 0)
		return -EIO;
	return recording_put(reads->recording, clock_sample, .task = task, .stack = stack, .reads = sample->reads,
			     .read_ns = sample->read_ns, .samples = 1);
}

static struct ring ring_of(const struct clock_reads *reads, __u32 cpu)
{
	return (struct ring){
		.records = (struct clock_read *)reads->samples.data + (size_t)cpu * CLOCK_RING_READS,
		.written = &state_of(reads, cpu)->events,
		.count = CLOCK_RING_READS,
		.bytes = sizeof(struct clock_read),
		.sequence = offsetof(struct clock_read, sequence),
		.aside = &reads->aside[cpu],
	};
}

void clock_reads_put_aside(struct clock_reads *reads)
{
	for (__u32 cpu = 0; cpu < reads->cpus; cpu++) {
		const struct ring ring = ring_of(reads, cpu);

		ring_put_aside(&ring, &reads->read[cpu], &reads->losses);
	}
}

int clock_reads_drain(struct clock_reads *reads)
{
	int err = 0;

	if (reads->online.fd >= 0)
		online_cpus_follow(&reads->online, reads->cpus, cpu_came, cpu_gone, reads);
	for (__u32 cpu = 0; !err && cpu < reads->cpus; cpu++) {
		struct ring ring = ring_of(reads, cpu);
		struct clock_read sample;
		struct ring_pass pass;

		ring_begin(&pass, &ring, reads->read[cpu], &reads->losses);
		while (!err && ring_next(&pass, &sample, &reads->losses))
			err = store_sample(reads, &sample);
		reads->read[cpu] = pass.position;
		__atomic_store_n(&state_of(reads, cpu)->tokens, CLOCK_TOKENS, __ATOMIC_RELAXED);
	}
	return err;
}

int clock_reads_flush(struct clock_reads *reads)
{
	__u64 unmatched = 0;
	int err = clock_reads_drain(reads);

	err = err ?: recording_put_text(reads->recording, "clock_function", reads->function);
	err = err ?: recording_put_number(reads->recording, "clock_reads_timed", reads->timed);
	for (__u32 cpu = 0; !err && cpu < reads->cpus; cpu++) {
		const struct clock_state *state = state_of(reads, cpu);
		struct histogram_blob blob = {.size = 0};

		unmatched += state->unmatched;
		if (!state->reads)
			continue;
		for (int i = 0; reads->timed && i < HISTOGRAM_BUCKETS; i++)
			histogram_put(&blob, i, state->histogram[i]);
		err = recording_put(reads->recording, clock_total, .cpu = cpu, .reads = state->reads,
				    .read_ns = state->read_ns, .max_ns = state->max_ns,
				    .histogram = {blob.bytes, blob.size});
	}
	err = err
		      ?: recording_put(reads->recording, loss, .name = "clock_reads_unmatched", .count = unmatched,
				       .meaning = "reads of the clock device without a length: an interrupt read it "
						  "too, or their start was missed",
				       .severity = "info");
	return err
		       ?: recording_put(
				  reads->recording, loss, .name = "clock_samples_lost",
				  .count = reads->losses.overwritten + reads->losses.torn,
				  .meaning = "samples of clock reads that were overwritten before lockline read them",
				  .severity = "loss");
}
