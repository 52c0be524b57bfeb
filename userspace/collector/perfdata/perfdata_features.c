// SPDX-License-Identifier: GPL-2.0-or-later
/* Formats of tools/perf/util/header.c, Linux 7.2. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/perfdata_features.h"
#include "base/small_file.h"
#include "base/values.h"

#define BUILD_IDS_MAX (1u << 20)

void perfdata_features_close(struct perfdata_features *features)
{
	for (int i = 0; i < MEMORY_NODES; i++)
		free(features->nodes[i]);
	for (__u32 i = 0; i < features->build_id_count; i++)
		free(features->build_ids[i].name);
	free(features->build_ids);
	free(features->topology.ranges);
	features->topology.ranges = NULL;
	features->build_ids = NULL;
	features->topology.range_count = features->build_id_count = 0;
	memset(features->nodes, 0, sizeof(features->nodes));
}

/* A string with its size before it; NULL if it is cut. */
static const char *take_string(struct perfdata_bytes *bytes, size_t *length)
{
	__u32 size = perfdata_take_u32(bytes);
	const char *text = (const char *)perfdata_take(bytes, size);

	*length = text ? strnlen(text, size) : 0;
	return text;
}

static void copy_text(char *out, size_t size, const char *text, size_t length)
{
	if (length >= size)
		length = size - 1;
	memcpy(out, text, length);
	out[length] = 0;
	make_printable(out);
}

static int read_text(struct perfdata_bytes *bytes, char *out, size_t size)
{
	size_t length;
	const char *text = take_string(bytes, &length);

	if (!text)
		return -EBADMSG;
	copy_text(out, size, text, length);
	return 0;
}

static int read_command(struct perfdata_features *features, struct perfdata_bytes *bytes)
{
	__u32 words = perfdata_take_u32(bytes);
	size_t used = 0, length;

	for (__u32 i = 0; i < words; i++) {
		const char *text = take_string(bytes, &length);

		if (!text)
			return -EBADMSG;
		if (used + length + 2 > sizeof(features->command))
			break;
		if (used)
			features->command[used++] = ' ';
		copy_text(features->command + used, length + 1, text, length);
		used += strlen(features->command + used);
	}
	return 0;
}

static int read_events(struct perfdata_events *events, struct perfdata_bytes *bytes)
{
	__u32 count = perfdata_take_u32(bytes), attr_size = perfdata_take_u32(bytes);
	int err = 0;

	for (__u32 i = 0; !err && i < count; i++) {
		const char *name;
		size_t length;
		__u32 ids;

		perfdata_take(bytes, attr_size);
		ids = perfdata_take_u32(bytes);
		name = take_string(bytes, &length);
		if (!name)
			return -EBADMSG;
		err = perfdata_events_name(events, i, name, length);
		perfdata_skip(bytes, ids, 8);
	}
	return err ?: bytes->cut ? -EBADMSG : 0;
}

static int read_numa(struct perfdata_features *features, struct perfdata_bytes *bytes)
{
	__u32 count = perfdata_take_u32(bytes);

	for (__u32 i = 0; i < count; i++) {
		__u32 node = perfdata_take_u32(bytes);
		struct id_list cpus = {};
		char text[PERFDATA_COMMAND], why[VALUE_WHY];
		const char *list;
		size_t length;

		perfdata_take(bytes, 16);
		list = take_string(bytes, &length);
		if (!list)
			return -EBADMSG;
		if (node >= MEMORY_NODES)
			continue;
		copy_text(text, sizeof(text), list, length);
		free(features->nodes[node]);
		features->nodes[node] = strdup(text);
		if (!features->nodes[node])
			return -ENOMEM;
		features->topology.numa = true;
		/* A node of memory alone has no CPUs. */
		if (!*text)
			continue;
		if (parse_ids(text, true, 0, MEMORY_CPUS - 1, MEMORY_CPUS, &cpus, why)) {
			free(cpus.ids);
			return -EBADMSG;
		}
		for (size_t j = 0; j < cpus.count; j++)
			features->topology.node_of_cpu[cpus.ids[j]] = node + 1;
		free(cpus.ids);
	}
	return 0;
}

static int add_range(struct perfdata_features *features, __u64 start, __u64 end, __u32 node)
{
	struct memory_range *last =
		features->topology.range_count ? &features->topology.ranges[features->topology.range_count - 1] : NULL;
	struct memory_range *larger;

	if (last && last->end == start && last->node == node) {
		last->end = end;
		return 0;
	}
	if (features->topology.range_count == PERFDATA_RANGES)
		return -EBADMSG;
	if (!(features->topology.range_count & (features->topology.range_count - 1))) {
		larger = realloc(features->topology.ranges,
				 (features->topology.range_count ? 2 * features->topology.range_count : 1) *
					 sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		features->topology.ranges = larger;
	}
	features->topology.ranges[features->topology.range_count++] =
		(struct memory_range){.start = start, .end = end, .node = node};
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct memory_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int read_memory(struct perfdata_features *features, struct perfdata_bytes *bytes)
{
	__u64 version = perfdata_take_u64(bytes), block = perfdata_take_u64(bytes), count = perfdata_take_u64(bytes);

	if (bytes->cut || version != 1 || !block)
		return -EBADMSG;
	features->topology.range_count = 0;
	for (__u64 i = 0; i < count; i++) {
		__u64 node = perfdata_take_u64(bytes), size, words;
		const __u8 *bits;

		perfdata_take(bytes, 8);
		size = perfdata_take_u64(bytes);
		words = size / 64 + !!(size % 64);
		if (words > perfdata_left(bytes) / 8)
			return -EBADMSG;
		bits = perfdata_take(bytes, 8 * words);
		if (!bits)
			return -EBADMSG;
		for (__u64 bit = 0; bit < size; bit++) {
			int err = 0;

			if (perfdata_u64(bits + bit / 64 * 8, bytes->big) >> bit % 64 & 1)
				err = add_range(features, bit * block, (bit + 1) * block, node);
			if (err)
				return err;
		}
	}
	if (features->topology.range_count)
		qsort(features->topology.ranges, features->topology.range_count, sizeof(*features->topology.ranges),
		      compare_ranges);
	return 0;
}

int perfdata_build_id(struct perfdata_features *features, __u16 misc, struct perfdata_bytes bytes)
{
	struct perfdata_build_id *larger, *found;
	const __u8 *id;
	size_t length, size;

	perfdata_take(&bytes, 4);
	id = perfdata_take(&bytes, 24);
	if (!id)
		return -EBADMSG;
	if (features->build_id_count == BUILD_IDS_MAX)
		return -E2BIG;
	size = misc & MISC_BUILD_ID_SIZE ? id[MEMORY_BUILD_ID] : MEMORY_BUILD_ID;
	if (!size || size > MEMORY_BUILD_ID)
		return -EBADMSG;
	if (!(features->build_id_count & (features->build_id_count - 1))) {
		larger = realloc(features->build_ids,
				 (features->build_id_count ? 2 * features->build_id_count : 1) * sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		features->build_ids = larger;
	}
	length = strnlen((const char *)bytes.at, perfdata_left(&bytes));
	found = &features->build_ids[features->build_id_count];
	*found = (struct perfdata_build_id){.size = size, .kernel = (misc & MISC_CPUMODE) == CPUMODE_KERNEL};
	memcpy(found->id, id, size);
	found->name = strndup((const char *)bytes.at, length);
	if (!found->name)
		return -ENOMEM;
	features->build_id_count++;
	return 0;
}

static int read_build_ids(struct perfdata_features *features, struct perfdata_bytes *bytes)
{
	int err = 0;

	/* In a pipe there may be padding behind the last one. */
	while (!err && perfdata_left(bytes) >= 8) {
		const __u8 *header = perfdata_take(bytes, 8), *body;
		struct perfdata_bytes record = {.big = bytes->big};
		__u16 size;

		size = perfdata_u16(header + 6, bytes->big);
		body = size < 8 ? NULL : perfdata_take(bytes, size - 8);
		if (!body)
			return -EBADMSG;
		record.at = body;
		record.end = body + size - 8;
		err = perfdata_build_id(features, perfdata_u16(header + 4, bytes->big), record);
	}
	return err;
}

static int read_clock(struct perfdata_features *features, struct perfdata_bytes *bytes)
{
	if (perfdata_take_u32(bytes) != 1)
		return -EBADMSG;
	features->clockid = perfdata_take_u32(bytes);
	features->clock_wall_ns = perfdata_take_u64(bytes);
	features->clock_ns = perfdata_take_u64(bytes);
	features->clock_data = !bytes->cut;
	return 0;
}

int perfdata_feature(struct perfdata_features *features, struct perfdata_events *events, __u32 number,
		     struct perfdata_bytes bytes)
{
	static const struct {
		size_t offset;
		size_t size;
	} texts[] = {
#define TEXT(field) {offsetof(struct perfdata_features, field), sizeof(((struct perfdata_features *)0)->field)}
		[FEATURE_HOSTNAME] = TEXT(hostname),    [FEATURE_OSRELEASE] = TEXT(release),
		[FEATURE_VERSION] = TEXT(perf_version), [FEATURE_ARCH] = TEXT(architecture),
		[FEATURE_CPUDESC] = TEXT(cpu_model),    [FEATURE_CPUID] = TEXT(cpuid),
#undef TEXT
	};
	int err = 0;

	if (number < sizeof(texts) / sizeof(*texts) && texts[number].size)
		return read_text(&bytes, (char *)features + texts[number].offset, texts[number].size);
	switch (number) {
	case FEATURE_BUILD_ID:
		return read_build_ids(features, &bytes);
	case FEATURE_NRCPUS:
		features->cpus_possible = perfdata_take_u32(&bytes);
		features->cpus_online = perfdata_take_u32(&bytes);
		break;
	case FEATURE_TOTAL_MEM:
		features->memory_kib = perfdata_take_u64(&bytes);
		break;
	case FEATURE_CMDLINE:
		err = read_command(features, &bytes);
		break;
	case FEATURE_EVENT_DESC:
		err = read_events(events, &bytes);
		break;
	case FEATURE_NUMA_TOPOLOGY:
		err = read_numa(features, &bytes);
		break;
	case FEATURE_SAMPLE_TIME:
		features->first_ns = perfdata_take_u64(&bytes);
		features->last_ns = perfdata_take_u64(&bytes);
		break;
	case FEATURE_MEM_TOPOLOGY:
		err = read_memory(features, &bytes);
		break;
	case FEATURE_CLOCKID:
		features->clock_resolution_ns = perfdata_take_u64(&bytes);
		break;
	case FEATURE_COMPRESSED:
		perfdata_take(&bytes, 16);
		features->compressed_length = perfdata_take_u32(&bytes);
		break;
	case FEATURE_CLOCK_DATA:
		err = read_clock(features, &bytes);
		break;
	}
	return err ?: bytes.cut ? -EBADMSG : 0;
}

const char *perfdata_feature_name(__u32 number)
{
	static const char *const names[] = {
		[FEATURE_BUILD_ID] = "build ids",
		[FEATURE_HOSTNAME] = "host name",
		[FEATURE_OSRELEASE] = "kernel release",
		[FEATURE_VERSION] = "perf version",
		[FEATURE_ARCH] = "architecture",
		[FEATURE_NRCPUS] = "number of CPUs",
		[FEATURE_CPUDESC] = "CPU model",
		[FEATURE_CPUID] = "CPU id",
		[FEATURE_TOTAL_MEM] = "memory size",
		[FEATURE_CMDLINE] = "command line",
		[FEATURE_EVENT_DESC] = "event names",
		[FEATURE_NUMA_TOPOLOGY] = "NUMA topology",
		[FEATURE_SAMPLE_TIME] = "sample times",
		[FEATURE_MEM_TOPOLOGY] = "memory topology",
		[FEATURE_CLOCKID] = "clock",
		[FEATURE_COMPRESSED] = "compression",
		[FEATURE_CLOCK_DATA] = "clock's offset",
	};

	return number < sizeof(names) / sizeof(*names) && names[number] ? names[number] : "unused";
}
