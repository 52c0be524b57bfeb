// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/pmu.h"
#include "base/small_file.h"

/* AMD: of the latencies that IBS can choose by, arch/x86/events/amd/ibs.c. */
#define IBS_LDLAT_STEP 128
#define IBS_LDLAT_MOST 2048
#define MOST_PRECISE   3

#define TERM 64

/* root/PMU/directory/name; an empty directory is left out. */
static int read_text(const char *root, const char *pmu, const char *directory, const char *name, char *out, size_t size)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s%s%s", root, pmu, directory, *directory ? "/" : "", name);
	return first_line(path, out, size);
}

static bool has(const char *root, const char *pmu, const char *directory, const char *name)
{
	char text[4];

	return !read_text(root, pmu, directory, name, text, sizeof(text));
}

/* Puts the value's bits where the format says: "config1:0-15", "config:0-7,32-35". */
static int place_bits(const char *format, __u64 value, __u64 config[3])
{
	int at = !strncmp(format, "config1:", 8) ? 1 : !strncmp(format, "config2:", 8) ? 2 : 0;
	const char *ranges = strchr(format, ':');

	if (!ranges || strncmp(format, "config", 6) || (!at && format[6] != ':'))
		return -EINVAL;
	do {
		char *end;
		unsigned long low = strtoul(ranges + 1, &end, 10), high = low;
		__u64 mask;

		if (*end == '-')
			high = strtoul(end + 1, &end, 10);
		if (low > high || high > 63 || (*end && *end != ','))
			return -EINVAL;
		mask = high - low == 63 ? ~0ull : (1ull << (high - low + 1)) - 1;
		config[at] = (config[at] & ~(mask << low)) | (value & mask) << low;
		value = high - low == 63 ? 0 : value >> (high - low + 1);
		ranges = *end ? end : NULL;
	} while (ranges);
	/* More than there are bits for. */
	return value ? -ERANGE : 0;
}

static int take_terms(const char *root, struct pmu_event *event, const char *terms, bool aliases);

static int take_term(const char *root, struct pmu_event *event, const char *term, bool aliases)
{
	char name[TERM], text[PMU_TEXT], *end;
	const char *equals = strchr(term, '=');
	__u64 value = equals ? strtoull(equals + 1, &end, 0) : 1;

	if (equals && (end == equals + 1 || *end))
		return -EINVAL;
	snprintf(name, sizeof(name), "%.*s", (int)(equals ? equals - term : (long)strlen(term)), term);
	if (!*name || strchr(name, '/') || *name == '.')
		return -EINVAL;
	if (!strcmp(name, "config") || !strcmp(name, "config1") || !strcmp(name, "config2")) {
		event->config[name[6] ? name[6] - '0' : 0] = value;
		return 0;
	}
	if (!read_text(root, event->pmu, "format", name, text, sizeof(text)))
		return place_bits(text, value, event->config);
	if (aliases && !equals && !read_text(root, event->pmu, "events", name, text, sizeof(text)))
		return take_terms(root, event, text, false);
	return -ENOENT;
}

/* "event=0xcd,umask=0x1,ldlat=3"; with aliases also the PMU's own names of events.  Later terms win. */
static int take_terms(const char *root, struct pmu_event *event, const char *terms, bool aliases)
{
	char text[PMU_TEXT], *state, *term;
	int err = 0;

	if (strlen(terms) >= sizeof(text))
		return -EINVAL;
	snprintf(text, sizeof(text), "%s", terms);
	for (term = strtok_r(text, ",", &state); !err && term; term = strtok_r(NULL, ",", &state))
		err = take_term(root, event, term, aliases);
	return err;
}

/* The event of a PMU without terms; false: there is no such PMU. */
static bool begin_event(struct pmu_event *event, const char *root, const char *pmu)
{
	char text[32];

	*event = (struct pmu_event){};
	if (strlen(pmu) >= sizeof(event->pmu) || strchr(pmu, '/') || *pmu == '.' ||
	    read_text(root, pmu, "", "type", text, sizeof(text)))
		return false;
	snprintf(event->pmu, sizeof(event->pmu), "%s", pmu);
	event->type = strtoul(text, NULL, 10);
	/* Of a hybrid's cores the CPUs, of others a mask of where to count, if any. */
	if (read_text(root, pmu, "", "cpus", event->cpus, sizeof(event->cpus)) &&
	    read_text(root, pmu, "", "cpumask", event->cpus, sizeof(event->cpus)))
		event->cpus[0] = 0;
	return true;
}

static int most_precise(const char *root, const char *pmu)
{
	char text[16];
	long value;

	if (read_text(root, pmu, "caps", "max_precise", text, sizeof(text)))
		return 0;
	value = strtol(text, NULL, 10);
	return value < 0 ? 0 : value > MOST_PRECISE ? MOST_PRECISE : value;
}

static void add_event(struct pmu_plan *plan, const struct pmu_event *event)
{
	if (plan->count < PMU_EVENTS)
		plan->events[plan->count++] = *event;
}

static void set_precise(struct pmu_event *event, const char *root)
{
	event->precise = most_precise(root, event->pmu);
	event->least = event->precise ? 1 : 0;
}

/* Intel, and others that have perf's names for these events: mem-loads, mem-stores. */
static void add_named(struct pmu_plan *plan, const struct pmu_wish *wish, const char *pmu)
{
	const char *root = wish->root;
	struct pmu_event event;
	char terms[TERM];

	if (has(root, pmu, "events", "mem-loads") && begin_event(&event, root, pmu)) {
		snprintf(terms, sizeof(terms), "mem-loads");
		if (has(root, pmu, "format", "ldlat"))
			snprintf(terms, sizeof(terms), "mem-loads,ldlat=%u", wish->ldlat ?: PMU_LDLAT);
		set_precise(&event, root);
		snprintf(event.name, sizeof(event.name), "%s/%s/%s", pmu, terms, event.precise ? "P" : "");
		if (has(root, pmu, "events", "mem-loads-aux")) {
			/* Sapphire Rapids and Alder Lake's large cores: no data source without it (-ENODATA). */
			event.aux = !take_terms(root, &event, "mem-loads-aux", true);
			memcpy(event.aux_config, event.config, sizeof(event.config));
			memset(event.config, 0, sizeof(event.config));
		}
		if (!take_terms(root, &event, terms, true))
			add_event(plan, &event);
	}
	if (has(root, pmu, "events", "mem-stores") && begin_event(&event, root, pmu)) {
		set_precise(&event, root);
		snprintf(event.name, sizeof(event.name), "%s/mem-stores/%s", pmu, event.precise ? "P" : "");
		if (!take_terms(root, &event, "mem-stores", true))
			add_event(plan, &event);
	}
}

/*
 * AMD.  Operations are counted, not cycles (cnt_ctl), or slow ones would be
 * sampled more often.  All of them by default: the filters leave out what stays
 * within the last-level cache, and so what passes between cores that share it.
 */
static void add_ibs(struct pmu_plan *plan, const struct pmu_wish *wish)
{
	const char *root = wish->root, *pmu = "ibs_op";
	bool filter = has(root, pmu, "format", "l3missonly"), latency = has(root, pmu, "format", "ldlat");
	__u32 ldlat = (wish->ldlat + IBS_LDLAT_STEP - 1) / IBS_LDLAT_STEP * IBS_LDLAT_STEP;
	char terms[TERM] = "", extra[24] = "";
	struct pmu_event event;

	if (!begin_event(&event, root, pmu))
		return;
	if (has(root, pmu, "format", "cnt_ctl"))
		snprintf(terms, sizeof(terms), "cnt_ctl=1");
	/* Choosing by latency needs the other filter too, as long as the kernel does not set it by itself. */
	if (filter && (wish->l3_misses || (latency && ldlat)))
		snprintf(extra, sizeof(extra), "%sl3missonly=1", *terms ? "," : "");
	strcat(terms, extra);
	extra[0] = 0;
	if (latency && ldlat)
		snprintf(extra, sizeof(extra), "%sldlat=%u", *terms ? "," : "",
			 ldlat < IBS_LDLAT_MOST ? ldlat : IBS_LDLAT_MOST);
	strcat(terms, extra);
	snprintf(event.name, sizeof(event.name), "ibs_op/%s/", terms);
	if (take_terms(root, &event, terms, false))
		return;
	add_event(plan, &event);
	if (!has(root, pmu, "caps", "zen4_ibs_extensions"))
		snprintf(plan->note, sizeof(plan->note),
			 "this IBS (before Zen 4) says little about where data came from, and on Zen 3 nothing about "
			 "HITM");
	else if (!wish->l3_misses && !(latency && ldlat))
		snprintf(plan->note, sizeof(plan->note),
			 "IBS samples every kind of operation, few of which are transfers; --l3-misses samples only "
			 "those that miss the last-level cache");
}

/* PMU/term,.../modifiers */
static int add_wished(struct pmu_plan *plan, const struct pmu_wish *wish)
{
	const char *slash = strchr(wish->event, '/'), *end = slash ? strchr(slash + 1, '/') : NULL;
	char pmu[32], terms[PMU_TEXT];
	struct pmu_event event;
	int err;

	if (!end || slash - wish->event >= (long)sizeof(pmu) || end - slash >= (long)sizeof(terms) ||
	    strlen(wish->event) >= sizeof(event.name))
		return -EINVAL;
	snprintf(pmu, sizeof(pmu), "%.*s", (int)(slash - wish->event), wish->event);
	snprintf(terms, sizeof(terms), "%.*s", (int)(end - slash - 1), slash + 1);
	if (!begin_event(&event, wish->root, pmu))
		return -ENODEV;
	for (end++; *end; end++) {
		if (*end != 'p' && *end != 'P')
			return -EINVAL;
		event.precise = *end == 'P' ? most_precise(wish->root, pmu) : event.precise + 1;
	}
	if (event.precise > MOST_PRECISE)
		return -EINVAL;
	event.least = event.precise ? 1 : 0;
	snprintf(event.name, sizeof(event.name), "%s", wish->event);
	err = take_terms(wish->root, &event, terms, true);
	if (!err)
		add_event(plan, &event);
	return err;
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

void pmu_plan_make(struct pmu_plan *plan, const struct pmu_wish *wish)
{
	struct dirent **entries;
	int count, err;

	*plan = (struct pmu_plan){};
	if (wish->event) {
		err = add_wished(plan, wish);
		if (err)
			snprintf(plan->error, sizeof(plan->error), "%.120s: %s", wish->event,
				 err == -ENODEV   ? "there is no such PMU in " PMU_ROOT
				 : err == -ENOENT ? "its PMU has no such event and no such term"
				 : err == -ERANGE ? "a value is larger than its term"
						  : "write it as PMU/term=value,.../ with P for the most precise");
		return;
	}
	/* In the order of their names, whatever the directory's. */
	count = scandir(wish->root, &entries, visible, alphasort);
	for (int i = 0; i < count; i++) {
		const char *pmu = entries[i]->d_name;

		if (!strcmp(pmu, "ibs_op"))
			add_ibs(plan, wish);
		else if (!strncmp(pmu, "arm_spe_", 8) && !*plan->trace)
			snprintf(plan->trace, sizeof(plan->trace), "%.31s", pmu);
		else
			add_named(plan, wish, pmu);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

void pmu_plan_names(const struct pmu_plan *plan, char *out, size_t size)
{
	size_t used = 0;

	*out = 0;
	for (int i = 0; i < plan->count && used < size; i++)
		used += snprintf(out + used, size - used, "%s%s", i ? ", " : "", plan->events[i].name);
}
