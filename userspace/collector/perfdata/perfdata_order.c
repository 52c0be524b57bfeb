// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "perfdata/perfdata_order.h"

/* So many samples go on at once: they are looked at twice, and lie in a cache of the processor. */
#define AT_ONCE 1024u

struct perfdata_change {
	__u64 time;
	__u64 number;                       /* in the order of the file */
	struct perfdata_record_view record; /* body is a copy */
};

void perfdata_order_close(struct perfdata_order *order)
{
	for (__u32 i = 0; i < order->change_count; i++)
		free((void *)order->changes[i].record.body);
	free(order->samples);
	free(order->changes);
	free(order->sequence);
	*order = (struct perfdata_order){};
}

/* All arrays grow by doubling up to a limit that their users keep to. */
static int reserve(void **array, __u32 count, __u32 *capacity, size_t size)
{
	__u32 larger = *capacity ? 2 * *capacity : 1024;
	void *moved;

	if (count <= *capacity)
		return 0;
	while (larger < count)
		larger *= 2;
	moved = realloc(*array, larger * size);
	if (!moved)
		return -ENOMEM;
	*array = moved;
	*capacity = larger;
	return 0;
}

static int compare_changes(const void *a, const void *b)
{
	const struct perfdata_change *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* How many of the changes come before a sample of this time. */
static __u32 changes_before(const struct perfdata_order *order, __u32 count, __u64 time)
{
	return SORTED_UPTO(order->changes, count, time, time);
}

/* Sorts the samples up to limit by the number of changes before them: starts[n] is where those after n begin. */
static int sort_samples(struct perfdata_order *order, __u64 limit, __u32 changes, __u32 *starts)
{
	__u32 segment = 0, sum = 0;
	int err = reserve((void **)&order->sequence, order->sample_count, &order->sequence_capacity,
			  sizeof(*order->sequence));

	for (int pass = 0; !err && pass < 2; pass++) {
		for (__u32 i = 0; i < order->sample_count; i++) {
			__u64 time = order->samples[i].time;

			if (time > limit)
				continue;
			/* Mostly the same as the one before. */
			if ((segment && order->changes[segment - 1].time > time) ||
			    (segment < changes && order->changes[segment].time <= time))
				segment = changes_before(order, changes, time);
			if (pass)
				order->sequence[starts[segment]++] = i;
			else
				starts[segment]++;
		}
		for (__u32 i = 0; !pass && i <= changes; i++) {
			__u32 count = starts[i];

			starts[i] = sum;
			sum += count;
		}
	}
	return err;
}

static int apply_change(struct perfdata_order *order, __u32 number)
{
	int err = order->change(order->context, &order->changes[number].record);

	order->change_bytes -= order->changes[number].record.size;
	free((void *)order->changes[number].record.body);
	order->changes[number].record.body = NULL;
	return err;
}

static int apply_all(struct perfdata_order *order, __u64 limit, __u32 changes)
{
	__u32 *starts = calloc(changes + 1, sizeof(*starts)), at = 0;
	int err = starts ? sort_samples(order, limit, changes, starts) : -ENOMEM;

	/* Each start has moved to the end of its segment. */
	for (__u32 segment = 0; !err && segment <= changes; segment++) {
		for (; !err && at < starts[segment]; at++)
			err = order->samples_due(order->context, &order->samples[order->sequence[at]], 1);
		if (!err && segment < changes)
			err = apply_change(order, segment);
	}
	free(starts);
	return err;
}

static int flush(struct perfdata_order *order, __u64 limit)
{
	__u32 changes, kept = 0;
	int err = 0;

	if (order->change_count > 1)
		qsort(order->changes, order->change_count, sizeof(*order->changes), compare_changes);
	changes = changes_before(order, order->change_count, limit);
	if (changes)
		err = apply_all(order, limit, changes);
	for (__u32 begin = 0, end = 0; !err && begin < order->sample_count; begin = end) {
		while (end < order->sample_count && end - begin < AT_ONCE && order->samples[end].time <= limit)
			end++;
		if (end > begin && !changes)
			err = order->samples_due(order->context, &order->samples[begin], end - begin);
		for (; end < order->sample_count && order->samples[end].time > limit; end++)
			order->samples[kept++] = order->samples[end];
	}
	if (err)
		return err;
	order->sample_count = kept;
	order->change_count -= changes;
	if (changes)
		memmove(order->changes, order->changes + changes, order->change_count * sizeof(*order->changes));
	if (limit > order->flushed)
		order->flushed = limit;
	order->added = 0;
	order->kept = order->sample_count + order->change_count;
	return 0;
}

/* No room: the older half goes on, as with OE_FLUSH__HALF. */
static int flush_half(struct perfdata_order *order)
{
	__u64 first = ~0ull, last = 0, limit;
	int err;

	for (__u32 i = 0; i < order->sample_count; i++) {
		first = order->samples[i].time < first ? order->samples[i].time : first;
		last = order->samples[i].time > last ? order->samples[i].time : last;
	}
	for (__u32 i = 0; i < order->change_count; i++) {
		first = order->changes[i].time < first ? order->changes[i].time : first;
		last = order->changes[i].time > last ? order->changes[i].time : last;
	}
	limit = first + (last - first) / 2;
	err = flush(order, limit);
	/* A few far away would leave the rest where it is. */
	if (!err && (order->sample_count > PERFDATA_WAITING_SAMPLES / 4 * 3 ||
		     order->change_count > PERFDATA_WAITING_CHANGES / 4 * 3 ||
		     order->change_bytes > PERFDATA_WAITING_BYTES / 4 * 3))
		err = flush(order, last);
	return err;
}

struct memory_sample *perfdata_order_make_place(struct perfdata_order *order, int *err)
{
	if (order->sample_count == PERFDATA_WAITING_SAMPLES)
		*err = flush_half(order);
	*err = *err
		       ?: reserve((void **)&order->samples, order->sample_count + 1, &order->sample_capacity,
				  sizeof(*order->samples));
	return *err ? NULL : &order->samples[order->sample_count];
}

int perfdata_order_change(struct perfdata_order *order, __u64 time, const struct perfdata_record_view *record)
{
	struct perfdata_change *change;
	__u8 *copy;
	int err = 0;

	if (!perfdata_has_time(time))
		return order->change(order->context, record);
	if (order->change_count == PERFDATA_WAITING_CHANGES || order->change_bytes > PERFDATA_WAITING_BYTES)
		err = flush_half(order);
	err = err
		      ?: reserve((void **)&order->changes, order->change_count + 1, &order->change_capacity,
				 sizeof(*order->changes));
	if (err)
		return err;
	copy = malloc(record->size ?: 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, record->body, record->size);
	change = &order->changes[order->change_count++];
	*change = (struct perfdata_change){.time = time, .number = order->change_number++, .record = *record};
	change->record.body = copy;
	order->change_bytes += record->size;
	order->added++;
	order->late += time <= order->flushed;
	if (time > order->largest)
		order->largest = time;
	return 0;
}

int perfdata_order_round(struct perfdata_order *order)
{
	int err = 0;

	/* All that waits is looked at: rounds with little in them wait for one another. */
	if (order->due && order->added >= order->kept / 8)
		err = flush(order, order->due);
	order->due = order->largest;
	return err;
}

int perfdata_order_finish(struct perfdata_order *order)
{
	return flush(order, MEMORY_NO_TIME - 1);
}
