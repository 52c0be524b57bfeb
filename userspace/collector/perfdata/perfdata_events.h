/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The events of a perf.data file: their attributes, whose sample a record is, and how it is laid out. */
#ifndef LOCKLINE_PERFDATA_EVENTS_H
#define LOCKLINE_PERFDATA_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "memory/memory_sample.h"
#include "perfdata/perfdata_format.h"

#define PERFDATA_EVENTS_MAX 65536
#define PERFDATA_IDS_MAX    (1u << 22)

/* Where each field stands in a sample's body, where all have a fixed place; FIELD_NONE: it has none. */
struct perfdata_layout {
	__u8 ip;
	__u8 tid;
	__u8 time;
	__u8 address;
	__u8 cpu;
	__u8 weight;
	__u8 data_src;
	__u8 physical;
	__u8 size;  /* up to the last of them; 0: places differ from sample to sample */
	bool whole; /* all fields have a place, as `perf c2c record` has them */
};

struct perfdata_event {
	__u32 type;
	__u64 config;
	__u64 sample_type;
	__u64 read_format;
	__u64 branch_sample_type;
	__u64 regs_user;
	__u64 regs_intr;
	__s32 clockid; /* -1: perf's own clock */
	bool sample_id_all;
	struct perfdata_layout layout;
	__u64 samples;
	char *name; /* NULL: the file does not tell */
};

struct perfdata_id;

struct perfdata_events {
	bool big;
	struct perfdata_event *list;
	size_t count;
	struct perfdata_id *ids;
	size_t id_count;
	size_t id_capacity;
};

void perfdata_events_close(struct perfdata_events *events);
/* Adds the event of a struct perf_event_attr of size bytes.  -EINVAL: none; -E2BIG: too many. */
int perfdata_events_add(struct perfdata_events *events, const __u8 *attr, size_t size);
/* A number of the event added last.  -E2BIG: too many. */
int perfdata_events_add_id(struct perfdata_events *events, __u64 id);
/* By index or by number; what is unknown is left alone.  name is copied. */
int perfdata_events_name(struct perfdata_events *events, size_t index, const char *name, size_t size);
int perfdata_events_name_id(struct perfdata_events *events, __u64 id, const char *name, size_t size);
/* The event's name, or its type and number. */
const char *perfdata_event_title(const struct perfdata_event *event, char text[64]);

/*
 * Decodes the body of a SAMPLE record (what follows the header).  -ENOENT: an
 * event that the file does not know; -EBADMSG: shorter than its event says.
 */
int perfdata_sample(struct perfdata_events *events, const __u8 *body, size_t size, __u16 misc,
		    struct memory_sample *out);
/* The time of another record of the kernel; MEMORY_NO_TIME if it has none.  body without what sample_id_all adds. */
__u64 perfdata_record_time(const struct perfdata_events *events, const __u8 *body, size_t *size);

#endif /* LOCKLINE_PERFDATA_EVENTS_H */
