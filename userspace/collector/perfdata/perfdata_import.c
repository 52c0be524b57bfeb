// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "memory/memory_symbols.h"
#include "memory/memory_write.h"
#include "cli/message.h"
#include "perfdata/perfdata_beside.h"
#include "perfdata/perfdata_changes.h"
#include "perfdata/perfdata_import.h"
#include "perfdata/perfdata_meta.h"
#include "perfdata/perfdata_script.h"

#define DEFAULT_MEMORY    (1ull << 30)
#define DEFAULT_LINE_SIZE 64

static int apply_change(void *context, const struct perfdata_record_view *record)
{
	struct perfdata_import *import = context;
	int err = perfdata_beside_wait(import);

	err = err ?: perfdata_apply_change(&import->tasks, record, import->reader.events.big);
	if (err == -EBADMSG) {
		memory_problem(&import->problems, record->place, "a record of a mapping or a task is damaged");
		err = 0;
	}
	return err;
}

/* A sample that cannot be read; other errors end the reading. */
static __attribute__((noinline)) int leave_sample(struct perfdata_import *import,
						  const struct perfdata_record_view *record, int err)
{
	if (err == -ENOENT) {
		import->unknown_events++;
		return 0;
	}
	if (err == -EBADMSG) {
		if (!import->damaged++)
			memory_problem(&import->problems, record->place,
				       "a sample is shorter than its event says; the others like it are only counted");
		return 0;
	}
	return err;
}

static int take_sample(struct perfdata_import *import, const struct perfdata_record_view *record)
{
	struct memory_sample *sample;
	int err;

	sample = perfdata_order_place(&import->order, &err);
	if (!sample)
		return err;
	err = perfdata_sample(&import->reader.events, record->body, record->size, record->misc, sample);
	return err ? leave_sample(import, record, err) : perfdata_order_sample(&import->order, sample);
}

static __u64 value_at(const struct perfdata_import *import, const struct perfdata_record_view *record, size_t at)
{
	return record->size >= at + 8 ? perfdata_u64(record->body + at, import->reader.events.big) : 0;
}

static __attribute__((noinline)) int take_other(struct perfdata_import *import,
						const struct perfdata_record_view *record)
{
	struct perfdata_record_view change;
	__u64 time;

	switch (record->type) {
	case RECORD_MMAP:
	case RECORD_MMAP2:
	case RECORD_COMM:
	case RECORD_FORK:
	case RECORD_EXIT:
		change = *record;
		time = perfdata_record_time(&import->reader.events, change.body, &change.size);
		return perfdata_order_change(&import->order, time, &change);
	case RECORD_FINISHED_ROUND:
		import->in_round = false;
		return perfdata_order_round(&import->order);
	case RECORD_LOST:
		import->lost_records += value_at(import, record, 8);
		return 0;
	case RECORD_LOST_SAMPLES:
		import->lost_samples += value_at(import, record, 0);
		return 0;
	case RECORD_THROTTLE:
		import->throttled++;
		return 0;
	}
	return 0;
}

static int take_record(void *context, const struct perfdata_record_view *record)
{
	struct perfdata_import *import = context;

	if (record->type != RECORD_SAMPLE)
		return take_other(import, record);
	import->in_round = true;
	return take_sample(import, record);
}

/* Build ids of the header, or of a pipe's records, for objects whose mappings have none. */
static void take_build_ids(struct perfdata_import *import)
{
	const struct perfdata_features *features = &import->reader.features;
	struct memory_kernel *kernel = &import->tasks.kernel;

	for (__u32 i = 0; i < features->build_id_count; i++) {
		const struct perfdata_build_id *found = &features->build_ids[i];

		if (found->kernel && !kernel->build_id_size && !strncmp(found->name, "[kernel.kallsyms]", 17)) {
			memcpy(kernel->build_id, found->id, found->size);
			kernel->build_id_size = found->size;
		}
		memory_objects_set_build_id(&import->tasks.objects, found->name, found->id, found->size);
	}
}

/* Each with its end, and an empty one behind the last. */
static char *list_events(const struct perfdata_import *import)
{
	const struct perfdata_events *events = &import->reader.events;
	size_t length = 2 + sizeof(import->script_events), used = 0;
	char text[64], *list;

	for (size_t i = 0; i < events->count; i++)
		length += strlen(perfdata_event_title(&events->list[i], text)) + 1;
	list = calloc(1, length);
	if (list && import->by_perf)
		memcpy(list, import->script_events, sizeof(import->script_events));
	for (size_t i = 0; list && !import->by_perf && i < events->count; i++)
		if (events->list[i].samples || events->count == 1)
			used += sprintf(list + used, "%s", perfdata_event_title(&events->list[i], text)) + 1;
	return list;
}

static int write_recording(struct perfdata_import *import)
{
	const struct options *options = import->options;
	const struct perfdata_features *features = &import->reader.features;
	struct memory_symbol_sources sources = {
		.kallsyms = options->kallsyms,
		.system_map = options->system_map,
		.recording = options->recording,
		.symfs = options->symfs,
		.source_lines = !options->no_source,
		.hostname = features->hostname,
		.release = features->release,
	};
	struct memory_symbols *symbols = NULL;
	struct recording *recording = NULL;
	struct memory_rank rank = {};
	char *events = list_events(import);
	struct stat status;
	int err = events ? 0 : -ENOMEM;

	if (import->reader.input.seekable && !fstat(import->reader.input.fd, &status))
		sources.written_ns = (__u64)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
	err = err ?: memory_symbols_open(&symbols, &sources, &import->tasks.kernel);
	recording_is_temporary(options->temporary);
	err = err ?: recording_create_whole(&recording, options->output);
	if (!err) {
		struct memory_write write = {
			.recording = recording,
			.kind = "perf.data",
			.name = strcmp(options->input, "-") ? options->input : "standard input",
			.events = events,
			.lines = &import->lines,
			.tasks = &import->tasks,
			.topology = &features->topology,
			.symbols = symbols,
			.problems = &import->problems,
			.accesses = options->accesses ?: ~0ull,
		};

		err = memory_write(&write, &rank);
		err = err ?: perfdata_write_meta(import, recording, memory_symbols_kernel_source(symbols), &rank);
		if (err)
			recording_abandon(recording);
		else
			err = recording_publish(recording);
	}
	memory_rank_free(&rank);
	memory_symbols_close(symbols);
	free(events);
	return err;
}

static void tell(const struct perfdata_import *import)
{
	const struct memory_counts *totals = &import->lines.totals;

	for (__u64 i = 0; i < import->problems.count && i < 3; i++)
		message("%s: at byte %llu: %s", import->options->input,
			(unsigned long long)import->problems.list[i].place, import->problems.list[i].text);
	if (import->problems.count > 3)
		message("%s: %llu more problems; memory_problem in the recording has them", import->options->input,
			(unsigned long long)import->problems.count - 3);
	if (import->lines.refused)
		message("%llu samples are in no line: more than --memory allows; the totals have them",
			(unsigned long long)import->lines.refused);
	if (!import->options->quiet)
		message("%llu samples, %llu HITM, %u lines, in %s", (unsigned long long)totals->nr_entries,
			(unsigned long long)totals->tot_hitm, import->lines.line_count, import->options->output);
}

int perfdata_import_read(struct perfdata_import *import)
{
	const char *path = import->options->input;
	int ended, err = perfdata_reader_open(&import->reader, path, &import->problems);

	if (err == -EISDIR && import->options->decoder != DECODER_NATIVE)
		return perfdata_script(import, "it is a directory of `perf record --threads`");
	if (err == -EISDIR)
		message("cannot read %s: it is a directory", path);
	if (err)
		return err;
	if (import->options->decoder == DECODER_PERF)
		return perfdata_script(import, "you chose --decoder perf");
	err = perfdata_reader_run(&import->reader, take_record, import);
	err = err ?: perfdata_order_finish(&import->order);
	ended = perfdata_beside_end(import);
	err = err ?: ended;
	/* A file's header tells how long it is; of a pipe this is the only sign of its end. */
	if (!err && import->reader.pipe && import->in_round && !import->reader.cut)
		memory_problem(&import->problems, import->reader.input.offset,
			       "it does not end as perf ends its files: it may be cut off");
	if (!err && import->reader.decoder_wanted && import->options->decoder == DECODER_NATIVE)
		memory_problem(&import->problems, 0, "trace data of Arm SPE was left out: only perf can decode it");
	if (!err && import->reader.decoder_wanted && import->options->decoder != DECODER_NATIVE)
		return perfdata_script(import, "it has trace data of Arm SPE");
	if (!err && !import->reader.events.count) {
		message("cannot read %s: it has no event%s", path, import->reader.cut ? ": it ends too early" : "");
		err = -EBADMSG;
	}
	return err;
}

int perfdata_import_open(struct perfdata_import *import, const struct options *options)
{
	*import = (struct perfdata_import){.options = options};
	import->budget.limit = options->memory_bytes ?: DEFAULT_MEMORY;
	import->first_ns = ~0ull;
	import->order.samples_due = perfdata_beside_samples;
	import->order.change = apply_change;
	import->order.context = import;
	import->reader.input.fd = -1;
	memory_lines_open(&import->lines, options->line_size ?: DEFAULT_LINE_SIZE, &import->budget);
	return memory_tasks_open(&import->tasks, &import->budget);
}

void perfdata_import_close(struct perfdata_import *import)
{
	perfdata_order_close(&import->order);
	perfdata_reader_close(&import->reader);
	memory_lines_close(&import->lines);
	memory_tasks_close(&import->tasks);
}

int perfdata_import(const struct options *options)
{
	/* Kept, so that whoever looks for leaks finds none. */
	static struct perfdata_import *import;
	int err;

	import = malloc(sizeof(*import));
	if (!import)
		return -ENOMEM;
	err = perfdata_import_open(import, options);
	err = err ?: perfdata_import_read(import);
	if (!err) {
		take_build_ids(import);
		err = write_recording(import);
	}
	if (!err)
		tell(import);
	else if (err == -ENOMEM)
		message("cannot read %s: out of memory; --memory bounds what is kept", options->input);
	/* The process ends with the import.  To free each access of millions takes an eighth of the time. */
	perfdata_reader_close(&import->reader);
	return err;
}
