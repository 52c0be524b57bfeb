// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/perfdata_events.h"
#include "base/small_file.h"

#define ATTR_SIZE_FIRST 64 /* PERF_ATTR_SIZE_VER0 */
/* PERF_MEM_DATA_SRC_NONE of tools/perf/util/event.h: all levels "not available". */
#define DATA_SRC_NONE 0x5080021ull

struct perfdata_id {
	__u64 id;
	__u32 event; /* index + 1; 0: free */
};

void perfdata_events_close(struct perfdata_events *events)
{
	for (size_t i = 0; i < events->count; i++)
		free(events->list[i].name);
	free(events->list);
	free(events->ids);
	*events = (struct perfdata_events){};
}

static size_t hash_id(__u64 id, size_t capacity)
{
	/* The highest bits: numbers one after the other get places of their own. */
	return (id * 0x9e3779b97f4a7c15ull) >> (64 - __builtin_ctzll(capacity));
}

static struct perfdata_id *find_id(const struct perfdata_events *events, __u64 id)
{
	size_t at = hash_id(id, events->id_capacity);

	while (events->ids[at].event && events->ids[at].id != id)
		at = (at + 1) & (events->id_capacity - 1);
	return &events->ids[at];
}

static int grow_ids(struct perfdata_events *events)
{
	struct perfdata_events larger = {.id_capacity = events->id_capacity ? 2 * events->id_capacity : 256};

	larger.ids = calloc(larger.id_capacity, sizeof(*larger.ids));
	if (!larger.ids)
		return -ENOMEM;
	for (size_t i = 0; i < events->id_capacity; i++)
		if (events->ids[i].event)
			*find_id(&larger, events->ids[i].id) = events->ids[i];
	free(events->ids);
	events->ids = larger.ids;
	events->id_capacity = larger.id_capacity;
	return 0;
}

int perfdata_events_add_id(struct perfdata_events *events, __u64 id)
{
	struct perfdata_id *place;
	int err = 0;

	if (!events->count)
		return -EINVAL;
	if (2 * (events->id_count + 1) > events->id_capacity)
		err = events->id_count >= PERFDATA_IDS_MAX ? -E2BIG : grow_ids(events);
	if (err)
		return err;
	place = find_id(events, id);
	events->id_count += !place->event;
	*place = (struct perfdata_id){.id = id, .event = events->count};
	return 0;
}

/* Bit fields begin at the highest bit of a byte on a big-endian machine, and with its first byte on either. */
static bool attr_flag(const __u8 *flags, int number, bool big)
{
	return flags[number / 8] >> (big ? 7 - number % 8 : number % 8) & 1;
}

#define VARIABLE \
	(SAMPLE_READ | SAMPLE_CALLCHAIN | SAMPLE_RAW | SAMPLE_BRANCH_STACK | SAMPLE_REGS_USER | SAMPLE_STACK_USER)

#define FIELD_NONE 0xff

static struct perfdata_layout layout_of(__u64 type)
{
	struct perfdata_layout layout;
	const struct {
		__u64 bits;
		__u8 *place;
	} fields[] = {
		{SAMPLE_IDENTIFIER, NULL},
		{SAMPLE_IP, &layout.ip},
		{SAMPLE_TID, &layout.tid},
		{SAMPLE_TIME, &layout.time},
		{SAMPLE_ADDR, &layout.address},
		{SAMPLE_ID, NULL},
		{SAMPLE_STREAM_ID, NULL},
		{SAMPLE_CPU, &layout.cpu},
		{SAMPLE_PERIOD, NULL},
		{SAMPLE_WEIGHT | SAMPLE_WEIGHT_STRUCT, &layout.weight},
		{SAMPLE_DATA_SRC, &layout.data_src},
		{SAMPLE_TRANSACTION, NULL},
		{SAMPLE_PHYS_ADDR, &layout.physical},
	};

	memset(&layout, FIELD_NONE, sizeof(layout));
	layout.size = 0;
	if (type & (VARIABLE | SAMPLE_REGS_INTR))
		return layout;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!(type & fields[i].bits))
			continue;
		if (fields[i].place)
			*fields[i].place = layout.size;
		layout.size += 8;
	}
	layout.whole = true;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		layout.whole &= !fields[i].place || *fields[i].place != FIELD_NONE;
	return layout;
}

int perfdata_events_add(struct perfdata_events *events, const __u8 *attr, size_t size)
{
	__u8 full[128] = {};
	bool big = events->big;
	struct perfdata_event *larger;
	__u32 stated;

	if (size < 48)
		return -EINVAL;
	stated = perfdata_u32(attr + 4, big) ?: ATTR_SIZE_FIRST;
	if (stated < ATTR_SIZE_FIRST)
		return -EINVAL;
	if (size > stated)
		size = stated;
	memcpy(full, attr, size < sizeof(full) ? size : sizeof(full));
	if (events->count == PERFDATA_EVENTS_MAX)
		return -E2BIG;
	if (!(events->count & (events->count - 1))) {
		larger = realloc(events->list, (events->count ? 2 * events->count : 1) * sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		events->list = larger;
	}
	events->list[events->count++] = (struct perfdata_event){
		.type = perfdata_u32(full, big),
		.config = perfdata_u64(full + 8, big),
		.sample_type = perfdata_u64(full + 24, big),
		.read_format = perfdata_u64(full + 32, big),
		.branch_sample_type = perfdata_u64(full + 72, big),
		.regs_user = perfdata_u64(full + 80, big),
		.regs_intr = perfdata_u64(full + 96, big),
		.clockid = attr_flag(full + 40, ATTR_USE_CLOCKID, big) ? (__s32)perfdata_u32(full + 92, big) : -1,
		.sample_id_all = attr_flag(full + 40, ATTR_SAMPLE_ID_ALL, big),
		.layout = layout_of(perfdata_u64(full + 24, big)),
	};
	return 0;
}

int perfdata_events_name(struct perfdata_events *events, size_t index, const char *name, size_t size)
{
	char *copy;

	if (index >= events->count || !size)
		return 0;
	copy = strndup(name, size);
	if (!copy)
		return -ENOMEM;
	make_printable(copy);
	free(events->list[index].name);
	events->list[index].name = copy;
	return 0;
}

int perfdata_events_name_id(struct perfdata_events *events, __u64 id, const char *name, size_t size)
{
	struct perfdata_id *place = events->id_capacity ? find_id(events, id) : NULL;

	return place && place->event ? perfdata_events_name(events, place->event - 1, name, size) : 0;
}

const char *perfdata_event_title(const struct perfdata_event *event, char text[64])
{
	if (event->name)
		return event->name;
	snprintf(text, 64, "type %u, config 0x%llx", event->type, (unsigned long long)event->config);
	return text;
}

/* As evlist__event2evsel() of tools/perf/util/evlist.c: id 0 is perf's own, and means the first event. */
static struct perfdata_event *event_of_id(const struct perfdata_events *events, __u64 id)
{
	struct perfdata_id *place;

	if (!id)
		return events->list;
	place = events->id_capacity ? find_id(events, id) : NULL;
	return place && place->event ? &events->list[place->event - 1] : NULL;
}

/* Where the event's number stands in a sample; all events of a file agree on it, or have IDENTIFIER. */
static struct perfdata_event *sample_event(const struct perfdata_events *events, const __u8 *body, size_t size)
{
	struct perfdata_event *first = events->list;
	__u64 type;
	size_t at = 0;

	if (events->count == 1)
		return first;
	if (!events->count)
		return NULL;
	type = first->sample_type;
	if (!(type & SAMPLE_IDENTIFIER)) {
		if (!(type & SAMPLE_ID))
			return NULL;
		at = 8 * __builtin_popcountll(type & (SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_ADDR));
	}
	return at + 8 <= size ? event_of_id(events, perfdata_u64(body + at, events->big)) : NULL;
}

static void skip_read(struct perfdata_bytes *bytes, __u64 format)
{
	__u64 each = 8 * (1 + !!(format & READ_ID) + !!(format & READ_LOST));
	__u64 times = 8 * (!!(format & READ_TIME_ENABLED) + !!(format & READ_TIME_RUNNING));

	if (format & READ_GROUP) {
		__u64 count = perfdata_take_u64(bytes);

		perfdata_take(bytes, times);
		perfdata_skip(bytes, count, each);
	} else {
		perfdata_take(bytes, times + each);
	}
}

static void skip_registers(struct perfdata_bytes *bytes, __u64 mask)
{
	if (perfdata_take_u64(bytes))
		perfdata_skip(bytes, __builtin_popcountll(mask), 8);
}

/* What stands between PERIOD and WEIGHT, each part as long as it says. */
static void skip_variable(struct perfdata_bytes *bytes, const struct perfdata_event *event)
{
	__u64 type = event->sample_type, count;

	if (type & SAMPLE_READ)
		skip_read(bytes, event->read_format);
	if (type & SAMPLE_CALLCHAIN)
		perfdata_skip(bytes, perfdata_take_u64(bytes), 8);
	if (type & SAMPLE_RAW)
		perfdata_skip(bytes, perfdata_take_u32(bytes), 1);
	if (type & SAMPLE_BRANCH_STACK) {
		count = perfdata_take_u64(bytes);
		if (event->branch_sample_type & BRANCH_HW_INDEX)
			perfdata_take(bytes, 8);
		perfdata_skip(bytes, count, 24);
		if (event->branch_sample_type & BRANCH_COUNTERS)
			perfdata_skip(bytes, count, 8);
	}
	if (type & SAMPLE_REGS_USER)
		skip_registers(bytes, event->regs_user);
	if (type & SAMPLE_STACK_USER) {
		count = perfdata_take_u64(bytes);
		perfdata_skip(bytes, count, 1);
		if (count)
			perfdata_take(bytes, 8);
	}
}

static __u64 word_at(const __u8 *body, __u8 place)
{
	__u64 word = 0;

	if (place != FIELD_NONE)
		memcpy(&word, body + place, sizeof(word));
	return word;
}

static __u64 word_there(const __u8 *body, __u8 place)
{
	__u64 word;

	memcpy(&word, body + place, sizeof(word));
	return word;
}

/* Of a sample in this machine's byte order, which has every field, in its place. */
static inline void take_whole(const struct perfdata_event *event, const __u8 *body, __u16 misc,
			      struct memory_sample *out)
{
	const struct perfdata_layout *layout = &event->layout;
	__u64 ids = word_there(body, layout->tid), weight = word_there(body, layout->weight);

	out->time = word_there(body, layout->time);
	out->ip = word_there(body, layout->ip);
	out->address = word_there(body, layout->address);
	out->physical = word_there(body, layout->physical);
	out->data_src = word_there(body, layout->data_src);
	out->weight = event->sample_type & SAMPLE_WEIGHT ? weight : (__u32)weight;
	out->pid = ids;
	out->tid = ids >> 32;
	out->cpu = word_there(body, layout->cpu);
	out->cpumode = misc & MISC_CPUMODE;
	out->wait_kind = 0;
	out->live = 0;
	out->lock = 0;
}

/* The same, where some fields may be missing. */
static __attribute__((noinline)) void take_fixed(const struct perfdata_event *event, const __u8 *body, __u16 misc,
						 struct memory_sample *out)
{
	const struct perfdata_layout *layout = &event->layout;
	__u64 ids = layout->tid == FIELD_NONE ? ~0ull : word_at(body, layout->tid);
	__u64 weight = word_at(body, layout->weight);

	*out = (struct memory_sample){
		.time = layout->time == FIELD_NONE ? MEMORY_NO_TIME : word_at(body, layout->time),
		.ip = word_at(body, layout->ip),
		.address = word_at(body, layout->address),
		.physical = word_at(body, layout->physical),
		.data_src = layout->data_src == FIELD_NONE ? DATA_SRC_NONE : word_at(body, layout->data_src),
		.weight = event->sample_type & SAMPLE_WEIGHT ? weight : (__u32)weight,
		.pid = ids,
		.tid = ids >> 32,
		.cpu = layout->cpu == FIELD_NONE ? MEMORY_NO_ID : (__u32)word_at(body, layout->cpu),
		.cpumode = misc & MISC_CPUMODE,
	};
}

/* Field by field: of one whose fields are as long as they say, or of another byte order. */
static __attribute__((noinline)) int take_fields(const struct perfdata_event *event, struct perfdata_bytes bytes,
						 __u16 misc, struct memory_sample *out)
{
	__u64 type = event->sample_type;

	*out = (struct memory_sample){.time = MEMORY_NO_TIME,
				      .data_src = DATA_SRC_NONE,
				      .pid = MEMORY_NO_ID,
				      .tid = MEMORY_NO_ID,
				      .cpu = MEMORY_NO_ID,
				      .cpumode = misc & MISC_CPUMODE};
	if (type & SAMPLE_IDENTIFIER)
		perfdata_take(&bytes, 8);
	if (type & SAMPLE_IP)
		out->ip = perfdata_take_u64(&bytes);
	if (type & SAMPLE_TID) {
		out->pid = perfdata_take_u32(&bytes);
		out->tid = perfdata_take_u32(&bytes);
	}
	if (type & SAMPLE_TIME)
		out->time = perfdata_take_u64(&bytes);
	if (type & SAMPLE_ADDR)
		out->address = perfdata_take_u64(&bytes);
	if (type & SAMPLE_ID)
		perfdata_take(&bytes, 8);
	if (type & SAMPLE_STREAM_ID)
		perfdata_take(&bytes, 8);
	if (type & SAMPLE_CPU) {
		out->cpu = perfdata_take_u32(&bytes);
		perfdata_take(&bytes, 4);
	}
	if (type & SAMPLE_PERIOD)
		perfdata_take(&bytes, 8);
	if (type & VARIABLE)
		skip_variable(&bytes, event);
	/* WEIGHT_STRUCT: the latency is the low half, as arch_perf_parse_sample_weight() of perf's x86 takes it. */
	if (type & SAMPLE_WEIGHT)
		out->weight = perfdata_take_u64(&bytes);
	else if (type & SAMPLE_WEIGHT_STRUCT)
		out->weight = (__u32)perfdata_take_u64(&bytes);
	if (type & SAMPLE_DATA_SRC)
		out->data_src = perfdata_take_u64(&bytes);
	if (type & SAMPLE_TRANSACTION)
		perfdata_take(&bytes, 8);
	if (type & SAMPLE_REGS_INTR)
		skip_registers(&bytes, event->regs_intr);
	if (type & SAMPLE_PHYS_ADDR)
		out->physical = perfdata_take_u64(&bytes);
	return bytes.cut ? -EBADMSG : 0;
}

int perfdata_sample(struct perfdata_events *events, const __u8 *body, size_t size, __u16 misc,
		    struct memory_sample *out)
{
	struct perfdata_event *event = sample_event(events, body, size);
	bool fixed;
	int err = 0;

	if (!event)
		return -ENOENT;
	fixed = event->layout.size && size >= event->layout.size && !events->big;
	if (fixed && event->layout.whole)
		take_whole(event, body, misc, out);
	else if (fixed)
		take_fixed(event, body, misc, out);
	else
		err = take_fields(event, (struct perfdata_bytes){.at = body, .end = body + size, .big = events->big},
				  misc, out);
	event->samples += !err;
	return err;
}

__u64 perfdata_record_time(const struct perfdata_events *events, const __u8 *body, size_t *size)
{
	const struct perfdata_event *event = events->list;
	size_t from_end = 8, length;
	__u64 type, time = MEMORY_NO_TIME;

	if (!events->count || !event->sample_id_all)
		return MEMORY_NO_TIME;
	type = event->sample_type;
	if (events->count > 1) {
		if (!(type & SAMPLE_IDENTIFIER))
			from_end += 8 * __builtin_popcountll(type & (SAMPLE_CPU | SAMPLE_STREAM_ID));
		if (type & (SAMPLE_IDENTIFIER | SAMPLE_ID) && *size >= from_end)
			event = event_of_id(events, perfdata_u64(body + *size - from_end, events->big)) ?: event;
		type = event->sample_type;
	}
	length = 8 * __builtin_popcountll(type & (SAMPLE_TID | SAMPLE_TIME | SAMPLE_ID | SAMPLE_STREAM_ID | SAMPLE_CPU |
						  SAMPLE_IDENTIFIER));
	if (length > *size)
		return MEMORY_NO_TIME;
	*size -= length;
	if (type & SAMPLE_TIME)
		time = perfdata_u64(body + *size + (type & SAMPLE_TID ? 8 : 0), events->big);
	return time;
}
