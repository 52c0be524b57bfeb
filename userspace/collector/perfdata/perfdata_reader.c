// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/message.h"
#include "perfdata/perfdata_reader.h"
#include "perfdata/perfdata_unpack.h"

#define ATTR_SIZE_MAX 4096

struct section {
	__u64 offset;
	__u64 size;
};

static struct section read_section(const __u8 *at, bool big)
{
	return (struct section){perfdata_u64(at, big), perfdata_u64(at + 8, big)};
}

/* All of a section, or NULL: too large, or not all of it in the file.  The caller frees it. */
static __u8 *read_part(struct perfdata_reader *reader, struct section section, __u64 limit)
{
	__u64 got;
	__u8 *data;

	if (section.size > limit || section.size > reader->input.size ||
	    section.offset > reader->input.size - section.size)
		return NULL;
	data = malloc(section.size ?: 1);
	if (data &&
	    (perfdata_input_part(&reader->input, section.offset, section.size, data, &got) || got < section.size)) {
		free(data);
		data = NULL;
	}
	return data;
}

static int read_ids(struct perfdata_reader *reader, struct section section)
{
	__u8 *data = read_part(reader, section, 8ull * PERFDATA_IDS_MAX);
	int err = 0;

	if (!data) {
		memory_problem(reader->problems, section.offset, "the numbers of an event cannot be read");
		return 0;
	}
	for (__u64 at = 0; !err && at + 8 <= section.size; at += 8)
		err = perfdata_events_add_id(&reader->events, perfdata_u64(data + at, reader->events.big));
	free(data);
	return err;
}

static int read_attributes(struct perfdata_reader *reader, struct section section, __u64 each)
{
	bool big = reader->events.big;
	__u8 *data;
	int err = 0;

	/* Each is a struct perf_event_attr, and the place of its numbers. */
	if (each < 64 + 16 || each > ATTR_SIZE_MAX || section.size / each > PERFDATA_EVENTS_MAX)
		return -EINVAL;
	data = read_part(reader, section, each * PERFDATA_EVENTS_MAX);
	if (!data)
		return -EINVAL;
	for (__u64 at = 0; !err && at + each <= section.size; at += each) {
		err = perfdata_events_add(&reader->events, data + at, each - 16);
		err = err ?: read_ids(reader, read_section(data + at + each - 16, big));
	}
	free(data);
	return err;
}

static int take_feature(struct perfdata_reader *reader, __u32 number, const __u8 *data, size_t size, __u64 place)
{
	struct perfdata_bytes bytes = {.at = data, .end = data + size, .big = reader->events.big};
	int err = perfdata_feature(&reader->features, &reader->events, number, bytes);

	if (err == -EBADMSG || err == -E2BIG) {
		memory_problem(reader->problems, place, "the header's %s cannot be read",
			       perfdata_feature_name(number));
		err = 0;
	}
	return err;
}

static bool has_feature(const __u8 *bits, int number, bool big)
{
	return perfdata_u64(bits + number / 64 * 8, big) >> number % 64 & 1;
}

/* After the data: one section for each bit, in their order. */
static int read_features(struct perfdata_reader *reader, const __u8 *bits, __u64 offset)
{
	bool big = reader->events.big;
	int count = 0, missing = 0, err = 0;

	for (int number = 0; !err && number < FEATURES; number++) {
		__u8 place[16], *data;
		struct section section;
		__u64 got = 0;

		if (!has_feature(bits, number, big))
			continue;
		err = perfdata_input_part(&reader->input, offset + 16ull * count++, 16, place, &got);
		if (err || got < 16) {
			missing++;
			err = 0;
			continue;
		}
		section = read_section(place, big);
		if (!section.size)
			continue;
		data = read_part(reader, section, PERFDATA_FEATURE);
		if (!data) {
			missing++;
			continue;
		}
		err = take_feature(reader, number, data, section.size, section.offset);
		free(data);
	}
	if (missing)
		memory_problem(reader->problems, offset,
			       "%d of the header's %d parts are not in the file: host, topology and names are missing",
			       missing, count);
	return err;
}

static int read_header(struct perfdata_reader *reader, const char *path)
{
	struct section attributes, data;
	__u8 header[PERFDATA_HEADER];
	const __u8 *bytes = perfdata_input_peek(&reader->input, PERFDATA_HEADER);
	__u64 offset;
	int err;

	if (!reader->input.seekable) {
		message("cannot read %s: a perf.data file cannot be read from a pipe; give the file's name, or use "
			"`perf record -o -`",
			path);
		return -ESPIPE;
	}
	if (!bytes) {
		message("cannot read %s: it ends inside of the header", path);
		return -EBADMSG;
	}
	memcpy(header, bytes, sizeof(header));
	attributes = read_section(header + 24, reader->events.big);
	data = read_section(header + 40, reader->events.big);
	err = read_attributes(reader, attributes, perfdata_u64(header + 16, reader->events.big));
	if (err == -EINVAL || err == -E2BIG) {
		message("cannot read %s: its list of events is damaged", path);
		return -EBADMSG;
	}
	if (err)
		return err;
	offset = data.offset + data.size;
	if (!data.size || offset < data.offset) {
		/* perf was killed before it could write the header's end. */
		memory_problem(reader->problems, 0,
			       "perf record was not ended properly: the header has no size of the data");
		reader->cut = true;
		offset = ~0ull;
	} else {
		err = read_features(reader, header + 72, offset);
	}
	if (!err)
		err = perfdata_input_seek(&reader->input, data.offset);
	reader->input.limit = offset;
	return err;
}

int perfdata_reader_open(struct perfdata_reader *reader, const char *path, struct memory_problems *problems)
{
	const __u8 *start;
	__u64 size;
	int err;

	*reader = (struct perfdata_reader){.problems = problems, .features.clockid = -1};
	err = perfdata_input_open(&reader->input, path);
	if (err)
		return err;
	start = perfdata_input_peek(&reader->input, PERFDATA_PIPE);
	if (!start) {
		message("cannot read %s: %s", path,
			reader->input.error ? strerror(reader->input.error) : "it is too short for a perf.data file");
		err = -EBADMSG;
		goto out;
	}
	if (!memcmp(start, PERFDATA_MAGIC_OLD, 8)) {
		message("cannot read %s: it is of a perf before 3.2; record it again, or convert it by `perf inject`",
			path);
		err = -EBADMSG;
		goto out;
	}
	reader->events.big = perfdata_u64(start, true) == PERFDATA_MAGIC;
	if (!reader->events.big && perfdata_u64(start, false) != PERFDATA_MAGIC) {
		message("cannot read %s: it is not a perf.data file", path);
		err = -EBADMSG;
		goto out;
	}
	size = perfdata_u64(start + 8, reader->events.big);
	reader->pipe = size == PERFDATA_PIPE;
	if (reader->pipe) {
		perfdata_input_skip(&reader->input, PERFDATA_PIPE);
	} else if (size < PERFDATA_HEADER) {
		message("cannot read %s: its header is damaged", path);
		err = -EBADMSG;
	} else {
		err = read_header(reader, path);
	}
out:
	if (err)
		perfdata_reader_close(reader);
	return err;
}

void perfdata_reader_close(struct perfdata_reader *reader)
{
	perfdata_unpacker_close(reader->unpacker);
	perfdata_features_close(&reader->features);
	perfdata_events_close(&reader->events);
	perfdata_input_close(&reader->input);
	reader->unpacker = NULL;
}

/* HEADER_ATTR of a pipe: an attribute as long as it says, and the event's numbers. */
static int take_attribute(struct perfdata_reader *reader, const struct perfdata_record_view *record)
{
	bool big = reader->events.big;
	__u32 size = record->size >= 8 ? perfdata_u32(record->body + 4, big) : 0;
	int err = size > record->size ? -EINVAL : perfdata_events_add(&reader->events, record->body, size);

	for (size_t at = size; !err && at + 8 <= record->size; at += 8)
		err = perfdata_events_add_id(&reader->events, perfdata_u64(record->body + at, big));
	if (err == -EINVAL || err == -E2BIG) {
		memory_problem(reader->problems, record->place, "an event cannot be read");
		err = 0;
	}
	return err;
}

/* Records that are about the file; others go to the function. */
static int take_record(struct perfdata_reader *reader, const struct perfdata_record_view *record,
		       perfdata_record_function *function, void *context)
{
	bool big = reader->events.big;
	struct perfdata_bytes bytes = {.at = record->body, .end = record->body + record->size, .big = big};

	reader->records++;
	reader->bytes += record->size + 8;
	switch (record->type) {
	case RECORD_HEADER_ATTR:
		return take_attribute(reader, record);
	case RECORD_HEADER_BUILD_ID:
		perfdata_build_id(&reader->features, record->misc, bytes);
		return 0;
	case RECORD_HEADER_FEATURE:
		if (record->size < 8)
			return 0;
		return take_feature(reader, perfdata_u64(record->body, big), record->body + 8, record->size - 8,
				    record->place);
	case RECORD_EVENT_UPDATE:
		if (record->size < 16 || perfdata_u64(record->body, big) != EVENT_UPDATE_NAME)
			return 0;
		return perfdata_events_name_id(&reader->events, perfdata_u64(record->body + 8, big),
					       (const char *)record->body + 16,
					       strnlen((const char *)record->body + 16, record->size - 16));
	case RECORD_AUXTRACE_INFO:
		if (record->size >= 4 && perfdata_u32(record->body, big) == AUXTRACE_TYPE_SPE)
			reader->decoder_wanted = true;
		return 0;
	}
	return function(context, record);
}

struct unpacked {
	struct perfdata_reader *reader;
	perfdata_record_function *function;
	void *context;
};

static int take_unpacked(void *context, const struct perfdata_record_view *record)
{
	struct unpacked *unpacked = context;

	/* No perf packs what is packed. */
	if (record->type == RECORD_COMPRESSED || record->type == RECORD_COMPRESSED2)
		return 0;
	return take_record(unpacked->reader, record, unpacked->function, unpacked->context);
}

static int unpack(struct perfdata_reader *reader, const struct perfdata_record_view *record,
		  perfdata_record_function *function, void *context)
{
	struct unpacked unpacked = {reader, function, context};
	__u64 limit = reader->features.compressed_length, size = record->size, left;
	const __u8 *body = record->body;
	const char *why = "";
	int err;

	if (record->type == RECORD_COMPRESSED2) {
		__u64 stated = size < 8 ? ~0ull : perfdata_u64(body, reader->events.big);

		if (stated > size - 8) {
			memory_problem(reader->problems, record->place, "a compressed record is damaged");
			return -EBADMSG;
		}
		body += 8;
		size = stated;
	}
	if (!limit || limit > PERFDATA_UNPACKED_MAX)
		limit = PERFDATA_UNPACKED_MAX;
	reader->packed += size;
	left = PERFDATA_UNPACKED_MAX + PERFDATA_UNPACKED_RATIO * reader->packed - reader->unpacked;
	limit = limit < left ? limit : left;
	err = reader->unpacker ? 0 : perfdata_unpacker_open(&reader->unpacker);
	err = err
		      ?: perfdata_unpack(reader->unpacker, body, size, limit, reader->events.big, record->place,
					 take_unpacked, &unpacked, &reader->unpacked, &why);
	if (err == -EBADMSG)
		memory_problem(reader->problems, record->place, "a compressed record cannot be unpacked: %s", why);
	return err;
}

/* Whether a record begins there, or the data end. */
static bool record_begins(const struct perfdata_reader *reader, __u64 offset)
{
	const struct perfdata_input *input = &reader->input;
	__u64 end = input->limit < input->size ? input->limit : input->size, got;
	bool big = reader->events.big;
	__u8 header[8];

	if (offset >= end || perfdata_input_part(input, offset, sizeof(header), header, &got) || got < sizeof(header))
		return offset == end;
	return perfdata_u32(header, big) && perfdata_u32(header, big) < RECORD_TYPES &&
	       perfdata_u16(header + 6, big) >= 8;
}

/* Trace data behind the record; 0 of another record by this number, as private versions of perf have it. */
static __u64 trace_data(struct perfdata_reader *reader, const struct perfdata_record_view *record)
{
	__u64 size = record->size >= 8 ? perfdata_u64(record->body, reader->events.big) : 0;
	__u64 behind = record->place + record->size + 8;

	/* In a file that is cut off the data may end behind it. */
	bool cut = reader->input.limit > reader->input.size;

	if (record->size + 8 == AUXTRACE_RECORD_SIZE &&
	    (!reader->input.seekable || cut || (size < ~behind && record_begins(reader, behind + size))))
		return size;
	if (!reader->odd_trace++)
		memory_problem(reader->problems, record->place,
			       "a record of type %u is not of trace data: what follows is read as records",
			       RECORD_AUXTRACE);
	return 0;
}

/* What stands behind a record without being one. */
static __u64 trailing(struct perfdata_reader *reader, const struct perfdata_record_view *record)
{
	if (record->type == RECORD_AUXTRACE)
		return trace_data(reader, record);
	if (record->type == RECORD_HEADER_TRACING_DATA && reader->pipe && record->size >= 4)
		return (perfdata_u32(record->body, reader->events.big) + 7ull) & ~7ull;
	return 0;
}

static bool at_end(struct perfdata_reader *reader)
{
	return reader->input.offset >= reader->input.limit || !perfdata_input_peek(&reader->input, 1);
}

static void tell_cut(struct perfdata_reader *reader, const char *what)
{
	reader->cut = true;
	if (reader->input.error)
		memory_problem(reader->problems, reader->input.offset, "reading ended: %s",
			       strerror(reader->input.error));
	else
		memory_problem(reader->problems, reader->input.offset, "%s", what);
}

/* Samples that lie in the buffer one after the other: nearly all records are such ones. */
static int take_samples(struct perfdata_reader *reader, perfdata_record_function *function, void *context)
{
	struct perfdata_input *input = &reader->input;
	const __u8 *begin = input->buffer + input->begin, *at = begin;
	__u64 held = input->end - input->begin, left;
	bool big = reader->events.big;
	int err = 0;

	if (held > input->limit - input->offset)
		held = input->limit - input->offset;
	for (left = held; !err && left >= 8 && perfdata_u32(at, big) == RECORD_SAMPLE;) {
		__u16 size = perfdata_u16(at + 6, big);
		struct perfdata_record_view record = {
			.type = RECORD_SAMPLE,
			.misc = perfdata_u16(at + 4, big),
			.body = at + 8,
			.size = size - 8u,
			.place = input->offset + (at - begin),
		};

		if (size < 8 || size > left)
			break;
		reader->records++;
		reader->bytes += size;
		err = function(context, &record);
		at += size;
		left -= size;
	}
	perfdata_input_skip(input, held - left);
	return err;
}

int perfdata_reader_run(struct perfdata_reader *reader, perfdata_record_function *function, void *context)
{
	struct perfdata_input *input = &reader->input;
	bool big = reader->events.big;
	int err = 0;

	while (!err && !at_end(reader)) {
		struct perfdata_record_view record;
		const __u8 *header;
		__u64 behind;
		__u16 size;

		err = take_samples(reader, function, context);
		if (err || at_end(reader))
			continue;
		header = perfdata_input_peek(input, 8);
		if (!header) {
			tell_cut(reader, "the file ends inside of a record");
			return 0;
		}
		size = perfdata_u16(header + 6, big);
		if (size < 8) {
			tell_cut(reader, "a record without a size: what follows cannot be read");
			return 0;
		}
		header = perfdata_input_peek(input, size);
		if (!header) {
			tell_cut(reader, "the file ends inside of a record");
			return 0;
		}
		record = (struct perfdata_record_view){
			.type = perfdata_u32(header, big),
			.misc = perfdata_u16(header + 4, big),
			.body = header + 8,
			.size = size - 8u,
			.place = input->offset,
		};
		behind = trailing(reader, &record);
		if (record.type == RECORD_COMPRESSED || record.type == RECORD_COMPRESSED2)
			err = unpack(reader, &record, function, context);
		else
			err = take_record(reader, &record, function, context);
		perfdata_input_skip(input, size);
		if (behind)
			perfdata_input_skip(input, behind);
	}
	if (err == -EBADMSG) {
		reader->cut = true;
		return 0;
	}
	if (!err && input->limit != ~0ull && input->offset < input->limit)
		tell_cut(reader, "the file ends before the data that its header announces");
	else if (!err && input->error)
		tell_cut(reader, "");
	if (!err && perfdata_unpacker_rest(reader->unpacker)) {
		reader->cut = true;
		memory_problem(reader->problems, input->offset, "the compressed data ends inside of a record");
	}
	return err;
}
