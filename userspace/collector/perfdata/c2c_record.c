// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/c2c_process.h"
#include "perfdata/c2c_record.h"
#include "kernel/kernel_btf.h"
#include "cli/message.h"
#include "recording/recording_rows.h"

#define SOURCE "perf c2c record"

struct c2c_record {
	const struct options *options;
	struct recording *recording;
	struct c2c_process process;
	char file[PATH_MAX];
	bool running;
};

static struct probe *add_probe(struct plan *plan)
{
	struct probe *probe;

	if (plan->probe_count == SIGNALS)
		return NULL;
	probe = &plan->probes[plan->probe_count++];
	*probe = (struct probe){.signal = SIGNAL_MEMORY_BY_PERF, .state = PROBE_ON, .source = SOURCE};
	return probe;
}

/* What the kernel has, as the plan found it: perf's own words leave that out. */
static const char *kernel_reason(const struct plan *plan)
{
	const struct probe *probe = plan_probe(plan, SIGNAL_HITM);

	return probe ? probe->reason : "";
}

static void cpu_list(const struct options *options, char *out, size_t size)
{
	size_t used = 0;

	*out = 0;
	for (size_t i = 0; i < options->cpus.count && used < size; i++)
		used += snprintf(out + used, size - used, "%s%u", used ? "," : "", options->cpus.ids[i]);
}

static int start(struct c2c_record *c2c)
{
	const struct options *options = c2c->options;
	char ldlat[16], *cpus = NULL;
	struct c2c_request request = {
		.perf = options->perf,
		.file = c2c->file,
		.ldlat = options->ldlat ? ldlat : NULL,
	};
	/* "8191," and a zero */
	const size_t size = options->cpus.count * 5 + 1;
	int err;

	if (snprintf(c2c->file, sizeof(c2c->file), "%s.perf.data", options->output) >= (int)sizeof(c2c->file)) {
		snprintf(c2c->process.why, sizeof(c2c->process.why), "the name of its file is too long");
		return -ENAMETOOLONG;
	}
	snprintf(ldlat, sizeof(ldlat), "%u", options->ldlat);
	if (options->cpus.count) {
		cpus = malloc(size);
		if (!cpus)
			return -ENOMEM;
		cpu_list(options, cpus, size);
		request.cpus = cpus;
	}
	err = c2c_process_start(&c2c->process, &request);
	free(cpus);
	return err;
}

int c2c_record_open(struct c2c_record **out, const struct options *options, struct plan *plan,
		    struct recording *recording)
{
	struct c2c_record *c2c = calloc(1, sizeof(*c2c));
	struct probe *probe = add_probe(plan);
	int err;

	if (!c2c)
		return -ENOMEM;
	*out = c2c;
	c2c->options = options;
	c2c->recording = recording;
	c2c->process = (struct c2c_process){.control = -1, .answers = -1, .output = -1};
	c2c->running = !start(c2c);
	if (probe && c2c->running) {
		snprintf(probe->reason, sizeof(probe->reason), "in %.300s", c2c->file);
	} else if (probe) {
		probe->state = PROBE_UNAVAILABLE;
		probe->source[0] = 0;
		snprintf(probe->reason, sizeof(probe->reason), "%.250s; the kernel: %.110s", c2c->process.why,
			 kernel_reason(plan));
		snprintf(probe->lost, sizeof(probe->lost), "%s", signal_lost(SIGNAL_MEMORY_BY_PERF));
	}
	if (!c2c->running)
		message("no memory samples: %s; the kernel: %s; the recording goes on without them", c2c->process.why,
			kernel_reason(plan));
	err = kernel_btf_put(recording);
	if (!err && c2c->running)
		err = recording_put_text(recording, "memory_samples_file", c2c->file);
	if (!err && c2c->running)
		err = recording_put_text(recording, "memory_samples_command", c2c->process.command);
	return err;
}

/* There are no more samples: the stored plan says so, and so does a line for the user. */
static int give_up(struct c2c_record *c2c)
{
	c2c->running = false;
	message("memory samples: %s; %s may hold a part of them", c2c->process.why, c2c->file);
	return recording_put(c2c->recording, probe, .signal = signal_name(SIGNAL_MEMORY_BY_PERF),
			     .state = probe_state_names[PROBE_UNAVAILABLE], .source = "", .reason = c2c->process.why,
			     .lost = signal_lost(SIGNAL_MEMORY_BY_PERF));
}

int c2c_record_begin(struct c2c_record *c2c)
{
	if (!c2c || !c2c->running || !c2c_process_enable(&c2c->process))
		return 0;
	return give_up(c2c);
}

void c2c_record_end(struct c2c_record *c2c)
{
	if (c2c && c2c->running)
		c2c_process_end(&c2c->process);
}

int c2c_record_finish(struct c2c_record *c2c)
{
	if (!c2c || !c2c->running)
		return 0;
	if (c2c_process_wait(&c2c->process))
		return give_up(c2c);
	if (!c2c->options->quiet)
		message("memory samples of the same time in %s; lockline c2c report %s --recording %s", c2c->file,
			c2c->file, c2c->options->output);
	return 0;
}

void c2c_record_close(struct c2c_record *c2c)
{
	if (c2c)
		c2c_process_close(&c2c->process);
	free(c2c);
}
