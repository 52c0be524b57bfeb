// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "kernel/cpu_topology.h"
#include "memory/live_sums.h"
#include "memory/perf_samples.h"
#include "naming/naming_client.h"

#define LINE_SIZE   64
#define MOST_MEMORY (256ull << 20)
#define MOST_KEPT   50000 /* accesses */

static void read_topology(struct live_sums *sums)
{
	for (__u32 cpu = 0; cpu < sums->cpus && cpu < MEMORY_CPUS; cpu++) {
		struct cpu_place place;

		cpu_place_read(&place, cpu, "/sys/devices/system/cpu");
		sums->topology.node_of_cpu[cpu] = place.node + 1;
	}
	sums->topology.numa = true;
}

int live_sums_open(struct live_sums *sums, const struct symbols *symbols, __u32 cpus)
{
	__u64 text;
	int err;

	*sums = (struct live_sums){.symbols = symbols, .cpus = cpus, .kept = MOST_KEPT};
	read_topology(sums);
	sums->budget.limit = MOST_MEMORY;
	memory_lines_open(&sums->lines, LINE_SIZE, &sums->budget);
	err = memory_tasks_open(&sums->tasks, &sums->budget);
	sums->maps.tasks = &sums->tasks;
	if (symbols_address(sums->symbols, "_text", &text))
		text = 0;
	return err ?: live_maps_kernel(&sums->tasks, text);
}

static __u32 live_bits(const struct memory_record *record)
{
	return (record->lock ? ACCESS_IN_WAIT : 0) | (record->flags & MEMORY_INTERRUPTS_ON ? ACCESS_INTERRUPTS_ON : 0) |
	       (record->flags & MEMORY_INTERRUPTS_OFF ? ACCESS_INTERRUPTS_OFF : 0);
}

int live_sums_add(struct live_sums *sums, __u32 cpu, const struct memory_record *record)
{
	const struct memory_space *space;
	struct memory_sample sample = {
		.time = record->time_ns,
		.ip = record->ip,
		.address = record->address,
		.physical = record->physical,
		.data_src = record->data_src,
		.weight = record->weight,
		.pid = record->tgid,
		.tid = record->tid,
		.cpu = cpu,
		/* Kernel addresses are in the upper half, on x86-64 and arm64. */
		.cpumode = record->ip >> 63 ? CPUMODE_KERNEL : CPUMODE_USER,
		.wait_kind = record->kind,
		.live = live_bits(record),
		.lock = record->lock,
	};
	bool user = sample.cpumode == CPUMODE_USER;
	__s64 thread;
	int err;

	err = memory_tasks_comm(&sums->tasks, sample.pid, sample.tid, record->comm, sizeof(record->comm), false);
	thread = err ?: memory_tasks_thread(&sums->tasks, sample.pid, sample.tid, &space);
	if (thread >= 0 && user &&
	    (!memory_space_find(space, sample.address) || !memory_space_find(space, sample.ip))) {
		err = live_maps_read(&sums->maps, sample.pid, now_ns());
		thread = err ?: memory_tasks_thread(&sums->tasks, sample.pid, sample.tid, &space);
	}
	if (thread == -ENOSPC) {
		sums->lines.refused++;
		return 0;
	}
	if (thread < 0)
		return thread;
	return memory_lines_add(&sums->lines, &sample, thread, &sums->tasks.objects,
				user ? space : sums->tasks.kernel_space);
}

/* Each with its end, and an empty one behind the last. */
static char *list_events(const struct pmu_plan *plan)
{
	char *list = calloc(plan->count + 1, PMU_TEXT);
	size_t used = 0;

	for (int i = 0; list && i < plan->count; i++)
		used += sprintf(list + used, "%s", plan->events[i].name) + 1;
	return list;
}

/* The session's symbols will do until the last time: reading them anew takes longer than the rings of samples last. */
static int open_names(struct memory_symbols **out, struct live_sums *sums, struct utsname *host, bool last)
{
	struct memory_symbol_sources sources = {.hostname = host->nodename, .release = host->release};

	if (!sums->client) {
		int err = naming_client_open(&sums->client);

		if (err)
			return err;
	}
	sources.client = sums->client;
	uname(host);
	sources.written_ns = clock_ns(CLOCK_REALTIME);
	if (!symbols_hidden(sums->symbols)) {
		sources.kallsyms = last ? "/proc/kallsyms" : NULL;
		sources.running = last ? NULL : sums->symbols;
	}
	return memory_symbols_open(out, &sources, &sums->tasks.kernel);
}

int live_sums_write(struct live_sums *sums, const struct live_sums_write *to, struct memory_rank *rank)
{
	struct memory_symbols *symbols = NULL;
	struct utsname host = {};
	char *events = list_events(to->pmu);
	int err = events ? memory_lines_finish(&sums->lines) : -ENOMEM;

	*rank = (struct memory_rank){};
	/* Without a line there is nothing to name. */
	if (!err && sums->lines.line_count)
		err = open_names(&symbols, sums, &host, to->turn.last);
	if (!err) {
		const struct memory_write write = {
			.recording = to->recording,
			.kind = "PMU",
			.events = events,
			.lines = &sums->lines,
			.tasks = &sums->tasks,
			.topology = &sums->topology,
			.symbols = symbols,
			.accesses = sums->kept,
			.locks = to->locks,
			.uncounted = to->uncounted,
		};

		if (sums->client)
			naming_client_meanwhile(sums->client, to->turn.pause, to->turn.context);
		err = memory_update_write(&sums->update, &write, &to->turn, rank);
	}
	memory_symbols_close(symbols);
	free(events);
	return err;
}

void live_sums_close(struct live_sums *sums)
{
	memory_update_free(&sums->update);
	naming_client_close(sums->client);
	live_maps_close(&sums->maps);
	memory_lines_close(&sums->lines);
	memory_tasks_close(&sums->tasks);
}
