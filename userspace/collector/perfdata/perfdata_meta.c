// SPDX-License-Identifier: GPL-2.0-or-later
/* What docs/recording.md says of an imported recording's facts. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/kinds.h"
#include "names/build_id.h"
#include "perfdata/perfdata_meta.h"
#include "recording/recording_rows.h"

static int put_text(struct recording *recording, const char *name, const char *value)
{
	return *value ? recording_put_text(recording, name, value) : 0;
}

static int put_number(struct recording *recording, const char *name, __u64 value)
{
	return value ? recording_put_number(recording, name, value) : 0;
}

static int put_loss(struct recording *recording, const char *name, __u64 count, const char *meaning,
		    const char *severity)
{
	return count ? recording_put(recording, loss, .name = name, .count = count, .meaning = meaning,
				     .severity = severity)
		     : 0;
}

static int write_losses(const struct perfdata_import *import, struct recording *recording,
			const struct memory_rank *rank)
{
	const struct {
		const char *name;
		__u64 count;
		const char *meaning;
		const char *severity;
	} losses[] = {
		{"lost_records", import->lost_records, "records that perf lost: its buffers were full", "loss"},
		{"lost_samples", import->lost_samples, "samples that the hardware's buffer lost", "loss"},
		{"throttled", import->throttled, "times that the kernel stopped sampling on a CPU for a while", "loss"},
		{"unknown_events", import->unknown_events, "samples of events that the file does not describe", "loss"},
		{"damaged_samples", import->damaged, "samples shorter than their event says", "loss"},
		{"late_changes", import->order.late,
		 "records of mappings and tasks that came after samples of a later time", "loss"},
		{"refused_mappings", import->tasks.refused, "mappings and tasks beyond the memory budget", "loss"},
		{"refused_samples", import->lines.refused, "samples beyond the memory budget: only in the totals",
		 "loss"},
		{"samples_without_cpu", import->lines.without_cpu, "samples without a CPU number", "info"},
		{"impossible_cpus", import->lines.bad_cpus, "samples of CPUs above 8,191", "loss"},
		{"lines_left_out", rank->lines_left_out,
		 "lines with too little traffic to be kept; --accesses keeps more", "info"},
		{"records_left_out", rank->records_left_out, "samples of lines that were left out: only in the totals",
		 "info"},
		{"snoops_left_out", rank->snoops_left_out, "HITM and peer snoops of lines that were left out", "info"},
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(losses) / sizeof(*losses); i++)
		err = put_loss(recording, losses[i].name, losses[i].count, losses[i].meaning, losses[i].severity);
	return err;
}

/* The clock of the samples: all events of a file have the same, or it is perf's own. */
static __s32 clock_of(const struct perfdata_events *events)
{
	__s32 clock = events->count ? events->list[0].clockid : -1;

	for (size_t i = 0; i < events->count; i++)
		if (events->list[i].clockid != clock)
			return -1;
	return clock;
}

static int write_times(const struct perfdata_import *import, struct recording *recording)
{
	const struct perfdata_features *features = &import->reader.features;
	static const char *const names[] = {
		[CLOCK_REALTIME] = "realtime",
		[CLOCK_MONOTONIC] = "monotonic",
		[CLOCK_MONOTONIC_RAW] = "monotonic_raw",
		[CLOCK_BOOTTIME] = "boottime",
		[CLOCK_TAI] = "tai",
	};
	__s32 clock = clock_of(&import->reader.events);
	const char *name = clock >= 0 && clock < (__s32)(sizeof(names) / sizeof(*names)) ? names[clock] : NULL;
	int err = put_text(recording, "clock_id", name ?: clock < 0 ? "perf" : "unknown");

	if (import->first_ns > import->last_ns)
		return err;
	err = err ?: recording_put_number(recording, "begin_ns", import->first_ns);
	err = err ?: recording_put_number(recording, "end_ns", import->last_ns);
	if (features->clock_data && features->clockid == clock)
		err = err
			      ?: put_number(recording, "begin_unix_ns",
					    features->clock_wall_ns - features->clock_ns + import->first_ns);
	return err;
}

static int write_machine(const struct perfdata_import *import, struct recording *recording)
{
	const struct perfdata_features *features = &import->reader.features;
	const struct memory_kernel *kernel = &import->tasks.kernel;
	char text[64];
	int err = put_text(recording, "hostname", features->hostname);

	err = err ?: put_text(recording, "kernel_release", features->release);
	err = err ?: put_text(recording, "architecture", features->architecture);
	err = err ?: put_text(recording, "cpu_model", features->cpu_model);
	err = err ?: put_text(recording, "cpu_id", features->cpuid);
	err = err ?: put_number(recording, "cpus_possible", features->cpus_possible);
	err = err ?: put_number(recording, "cpus_online", features->cpus_online);
	err = err ?: put_number(recording, "memory_total_bytes", features->memory_kib << 10);
	for (int node = 0; !err && node < MEMORY_NODES; node++) {
		snprintf(text, sizeof(text), "node_%d_cpus", node);
		if (features->nodes[node])
			err = recording_put_text(recording, text, features->nodes[node]);
	}
	build_id_text(kernel->build_id, kernel->build_id_size, text);
	err = err ?: put_text(recording, "kernel_build_id", text);
	if (kernel->known && kernel->reference) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)kernel->reference);
		if (!strcmp(kernel->reference_name, "_text"))
			err = err ?: put_text(recording, "kernel_text_address", text);
		err = err ?: put_text(recording, "kernel_reference_address", text);
		err = err ?: put_text(recording, "kernel_reference_symbol", kernel->reference_name);
	}
	return err;
}

int perfdata_write_meta(const struct perfdata_import *import, struct recording *recording, const char *symbols,
			const struct memory_rank *rank)
{
	const struct perfdata_reader *reader = &import->reader;
	int err = put_text(recording, "lockline_version", LOCKLINE_VERSION);

	err = err ?: put_text(recording, "state", "complete");
	err = err ?: put_text(recording, "imported_from", import->options->input);
	err = err ?: put_text(recording, "imported_by", import->by_perf ? "perf script" : "lockline");
	err = err ?: put_text(recording, "perf_version", reader->features.perf_version);
	err = err ?: put_text(recording, "perf_command", reader->features.command);
	err = err ?: put_text(recording, "perf_format", reader->pipe ? "pipe" : "file");
	err = err ?: put_text(recording, "perf_byte_order", reader->events.big ? "big" : "little");
	err = err ?: put_text(recording, "kernel_symbols", symbols);
	err = err ?: put_number(recording, "lines_seen", import->lines.line_count);
	err = err ?: put_number(recording, "problems", import->problems.count);
	err = err ?: write_machine(import, recording);
	err = err ?: write_times(import, recording);
	for (int kind = 0; !err && kind < KIND_END; kind++)
		err = recording_put(recording, kind, .id = kind, .name = kind_names[kind]);
	return err ?: write_losses(import, recording, rank);
}
