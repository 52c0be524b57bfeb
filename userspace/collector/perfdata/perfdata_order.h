/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples wait until all records that change names and mappings before them
 * have come: perf writes the buffers of the CPUs one after the other, and marks
 * each round.  As util/ordered-events.c of tools/perf, Linux 6.12, but samples
 * between two changes keep the order of the file.
 */
#ifndef LOCKLINE_PERFDATA_ORDER_H
#define LOCKLINE_PERFDATA_ORDER_H

#include "memory/memory_sample.h"
#include "perfdata/perfdata_reader.h"

/* 40 MiB; a round of more is cut in two. */
#define PERFDATA_WAITING_SAMPLES (512u << 10)
#define PERFDATA_WAITING_CHANGES (256u << 10)
#define PERFDATA_WAITING_BYTES   (64u << 20) /* of changes */

struct perfdata_change;

struct perfdata_order {
	/* Samples whose turn it is, with no change between them. */
	int (*samples_due)(void *context, const struct memory_sample *samples, __u32 count);
	perfdata_record_function *change;
	void *context;
	struct memory_sample *samples;
	__u32 sample_count;
	__u32 sample_capacity;
	struct perfdata_change *changes;
	__u32 change_count;
	__u32 change_capacity;
	__u64 change_number;
	__u64 change_bytes;
	__u32 *sequence;
	__u32 sequence_capacity;
	__u64 added; /* samples and changes since some went on, and how many waited then */
	__u64 kept;
	__u64 largest; /* time that came so far */
	__u64 due;     /* of the round before: what is not later is complete */
	__u64 flushed; /* all up to here went on */
	__u64 late;    /* changes that came after samples of a later time had gone on */
};

void perfdata_order_close(struct perfdata_order *order);
/* As perfdata_order_place(), where there is no room left. */
struct memory_sample *perfdata_order_make_place(struct perfdata_order *order, int *err);
/* Changes and samples that have no time go on at once. */
int perfdata_order_change(struct perfdata_order *order, __u64 time, const struct perfdata_record_view *record);
static inline bool perfdata_has_time(__u64 time)
{
	return time && time != MEMORY_NO_TIME;
}

/* Where the next sample is to be written, for perfdata_order_sample(); NULL and *err if there is no room. */
static inline struct memory_sample *perfdata_order_place(struct perfdata_order *order, int *err)
{
	*err = 0;
	if (order->sample_count < order->sample_capacity && order->sample_count < PERFDATA_WAITING_SAMPLES)
		return &order->samples[order->sample_count];
	return perfdata_order_make_place(order, err);
}

/* A sample in that place. */
static inline int perfdata_order_sample(struct perfdata_order *order, const struct memory_sample *sample)
{
	if (!perfdata_has_time(sample->time))
		return order->samples_due(order->context, sample, 1);
	order->sample_count++;
	order->added++;
	if (sample->time > order->largest)
		order->largest = sample->time;
	return 0;
}

/* A round is complete. */
int perfdata_order_round(struct perfdata_order *order);
/* Hands on all that waits. */
int perfdata_order_finish(struct perfdata_order *order);

#endif /* LOCKLINE_PERFDATA_ORDER_H */
