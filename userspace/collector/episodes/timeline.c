// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "episodes/timeline.h"

/* An interrupt writes its records between the place and the time of the record that it comes into. */
#define DISORDER_NS 1000000ull
/* Holders of which it is looked up what they did before. */
#define MOST_HOLDERS 8
/* Interrupts that nest on a CPU. */
#define MOST_NESTED 8

const char *const timeline_type_names[TIMELINE_TYPES] = {
	[TIMELINE_INTERRUPT] = "interrupt", [TIMELINE_VECTOR] = "vector",     [TIMELINE_IPI] = "ipi",
	[TIMELINE_IPI_SENT] = "ipi sent",   [TIMELINE_SOFTIRQ] = "softirq",   [TIMELINE_SWITCH] = "switch",
	[TIMELINE_WAKING] = "waking",       [TIMELINE_WAKEUP] = "wakeup",     [TIMELINE_WAIT_TASK] = "wait task",
	[TIMELINE_RELEASE] = "release",     [TIMELINE_ACQUIRED] = "acquired",
};

static const char *const vector_names[CONTEXT_VECTORS] = {
	[VECTOR_LOCAL_TIMER] = "local_timer",     [VECTOR_RESCHEDULE] = "reschedule",
	[VECTOR_CALL_FUNCTION] = "call_function", [VECTOR_CALL_FUNCTION_SINGLE] = "call_function_1",
	[VECTOR_IRQ_WORK] = "irq_work",
};

/* What is made of a record; an exit gives the length of its entry. */
static const struct {
	enum timeline_type type;
	bool exit;
} meanings[CONTEXT_TYPES] = {
	[CONTEXT_INTERRUPT_ENTRY] = {TIMELINE_INTERRUPT, false},
	[CONTEXT_INTERRUPT_EXIT] = {TIMELINE_INTERRUPT, true},
	[CONTEXT_VECTOR_ENTRY] = {TIMELINE_VECTOR, false},
	[CONTEXT_VECTOR_EXIT] = {TIMELINE_VECTOR, true},
	[CONTEXT_IPI_ENTRY] = {TIMELINE_IPI, false},
	[CONTEXT_IPI_EXIT] = {TIMELINE_IPI, true},
	[CONTEXT_IPI_SENT] = {TIMELINE_IPI_SENT, false},
	[CONTEXT_SOFTIRQ_ENTRY] = {TIMELINE_SOFTIRQ, false},
	[CONTEXT_SOFTIRQ_EXIT] = {TIMELINE_SOFTIRQ, true},
	[CONTEXT_SWITCH] = {TIMELINE_SWITCH, false},
	[CONTEXT_WAKING] = {TIMELINE_WAKING, false},
	[CONTEXT_WAKEUP] = {TIMELINE_WAKEUP, false},
	[CONTEXT_WAIT_TASK] = {TIMELINE_WAIT_TASK, false},
	[CONTEXT_SWITCH_THROTTLED] = {TIMELINE_SWITCH, false},
	[CONTEXT_WAKEUP_THROTTLED] = {TIMELINE_WAKEUP, false},
	[CONTEXT_IPIS_SENT] = {TIMELINE_IPI_SENT, false},
};

/* Copies of the records of one CPU in the window, the latest first. */
struct stretch {
	struct context_record *records;
	size_t count;
	size_t room;
};

static int push(struct stretch *stretch, const struct context_record *record)
{
	if (stretch->count == stretch->room) {
		size_t room = stretch->room ? stretch->room * 2 : 256;
		struct context_record *grown = realloc(stretch->records, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		stretch->records = grown;
		stretch->room = room;
	}
	stretch->records[stretch->count++] = *record;
	return 0;
}

static int read_context(struct timeline *timeline, const struct maps *maps, __u32 cpu,
			const struct timeline_window *window, struct stretch *stretch)
{
	struct ring ring = maps_context(maps, cpu);
	struct context_record copy;
	struct ring_pass pass;
	enum ring_found found;
	int err = 0;

	ring_begin_back(&pass, &ring);
	while (!err && (found = ring_previous(&pass, &copy)) < RING_OVERWRITTEN) {
		if (found != RING_COPIED || copy.time_ns > window->to_ns)
			continue;
		if (copy.time_ns + DISORDER_NS < window->from_ns)
			return 0;
		if (copy.time_ns >= window->from_ns && copy.type < CONTEXT_TYPES)
			err = push(stretch, &copy);
	}
	/* Not one record from before the window was left. */
	if (ring_has_lost(&pass))
		timeline->complete = false;
	return err;
}

static struct timeline_row *add_row(struct timeline *timeline)
{
	if (timeline->count == timeline->room) {
		size_t room = timeline->room ? timeline->room * 2 : 256;
		struct timeline_row *grown = realloc(timeline->rows, room * sizeof(*grown));

		if (!grown)
			return NULL;
		timeline->rows = grown;
		timeline->room = room;
	}
	timeline->rows[timeline->count] = (struct timeline_row){};
	return &timeline->rows[timeline->count++];
}

/* "0-3,7" of IPI_CPUS CPUs from the first on; one CPU alone is a value, as it is of an IPI to one. */
static void name_cpus(struct timeline_row *row, const char bits[16], __u32 first, __u32 cpus)
{
	const unsigned char *bytes = (const unsigned char *)bits;
	size_t used = 0;
	int count = 0;

	row->name[0] = 0;
	cpus = first < cpus ? cpus - first : 0;
	cpus = cpus < IPI_CPUS ? cpus : IPI_CPUS;
	for (__u32 bit = 0, end; bit < cpus; bit = end) {
		__u32 cpu = first + bit, last;

		end = bit + 1;
		if (!(bytes[bit / 8] >> bit % 8 & 1))
			continue;
		while (end < cpus && bytes[end / 8] >> end % 8 & 1)
			end++;
		last = first + end - 1;
		count += last - cpu + 1;
		row->value = cpu;
		if (used > sizeof(row->name) - 12)
			snprintf(row->name + used, sizeof(row->name) - used, ",...");
		else
			used += snprintf(row->name + used, sizeof(row->name) - used, last > cpu ? "%s%u-%u" : "%s%u",
					 used ? "," : "", cpu, last);
	}
	if (count == 1)
		row->name[0] = 0;
	else
		row->value = ~0u;
}

/* From the oldest on: entries become rows, exits their lengths, turns of one loop one row. */
static int add_stretch(struct timeline *timeline, const struct stretch *stretch, __u32 cpu, __u32 cpus)
{
	size_t first = timeline->count, open[MOST_NESTED];
	int depth = 0;

	for (size_t i = stretch->count; i > 0; i--) {
		const struct context_record *record = &stretch->records[i - 1];
		struct timeline_row *row;
		enum timeline_type type = meanings[record->type].type;

		if (meanings[record->type].exit) {
			while (depth && timeline->rows[open[depth - 1]].type != type)
				depth--;
			if (depth) {
				row = &timeline->rows[open[--depth]];
				row->length_ns = record->time_ns > row->time_ns ? record->time_ns - row->time_ns : 0;
			}
			continue;
		}
		row = timeline->count > first ? &timeline->rows[timeline->count - 1] : NULL;
		if (row && type == TIMELINE_WAIT_TASK && row->type == type && row->tid == record->tid &&
		    row->other_tid == record->other_tid) {
			row->value++;
			row->length_ns = record->time_ns - row->time_ns;
			continue;
		}
		row = add_row(timeline);
		if (!row)
			return -ENOMEM;
		row->time_ns = record->time_ns;
		row->sequence = record->sequence;
		row->cpu = cpu;
		row->tid = record->tid;
		row->other_tid = record->other_tid;
		row->value = type == TIMELINE_WAIT_TASK ? 1 : record->value;
		row->type = type;
		memcpy(row->comm, record->comm, sizeof(record->comm));
		row->throttled = record->type == CONTEXT_SWITCH_THROTTLED || record->type == CONTEXT_WAKEUP_THROTTLED;
		if (record->type == CONTEXT_IPIS_SENT)
			name_cpus(row, record->name, record->value, cpus);
		else
			memcpy(row->name, record->name, sizeof(record->name));
		if (type == TIMELINE_VECTOR && record->value < CONTEXT_VECTORS)
			strcpy(row->name, vector_names[record->value]);
		if (type <= TIMELINE_IPI || type == TIMELINE_SOFTIRQ) {
			if (depth == MOST_NESTED)
				depth = 0;
			open[depth++] = timeline->count - 1;
		}
	}
	return 0;
}

static bool concerns(const struct stretch *stretch, const struct timeline_window *window)
{
	for (size_t i = 0; i < stretch->count; i++) {
		const struct context_record *record = &stretch->records[i];

		if (record->tid == window->tid || record->other_tid == window->tid)
			return true;
		if (window->holder && (record->tid == window->holder || record->other_tid == window->holder))
			return true;
	}
	return false;
}

static void mark_cpu(struct timeline *timeline, __u32 cpu)
{
	timeline->cpus[cpu / 8] |= 1 << cpu % 8;
}

static bool marked(const struct timeline *timeline, __u32 cpu)
{
	return timeline->cpus[cpu / 8] >> cpu % 8 & 1;
}

static int add_holdings(struct timeline *timeline, const struct maps *maps, const struct holders *holders, __u32 cpu,
			const struct timeline_window *window)
{
	struct ring ring = maps_holdings(maps, cpu);
	struct holding_record holding;
	struct ring_pass pass;
	enum ring_found found;

	ring_begin_back(&pass, &ring);
	while ((found = ring_previous(&pass, &holding)) < RING_OVERWRITTEN) {
		struct timeline_row *row;

		if (found != RING_COPIED || holding.time_ns > window->to_ns)
			continue;
		if (holding.time_ns + DISORDER_NS < window->from_ns)
			return 0;
		if (holding.time_ns < window->from_ns || holding.lock != window->lock)
			continue;
		row = add_row(timeline);
		if (!row)
			return -ENOMEM;
		mark_cpu(timeline, cpu);
		row->time_ns = holding.time_ns;
		row->sequence = holding.sequence;
		row->cpu = cpu;
		row->tid = holding.tid;
		if (holding.flags & HOLDING_RELEASE) {
			row->type = TIMELINE_RELEASE;
			row->stack = holding.stack ? holders_stack(holders, cpu, pass.position) : 0;
			memcpy(row->comm, holding.comm, sizeof(holding.comm));
		} else {
			row->type = TIMELINE_ACQUIRED;
			row->length_ns = holding.time_ns - holding.begin_ns;
			row->other_tid = holding.owner_tid;
		}
	}
	if (ring_has_lost(&pass))
		timeline->complete = false;
	return 0;
}

static bool is_of_task(enum timeline_type type, __u32 tid, __u32 other_tid, __u32 wanted)
{
	return type == TIMELINE_SWITCH ? tid == wanted || other_tid == wanted
				       : type == TIMELINE_WAKEUP && other_tid == wanted;
}

/* Who held the lock, as far as the window tells; how many. */
static int find_holders(const struct timeline *timeline, const struct timeline_window *window,
			__u32 holders[MOST_HOLDERS])
{
	int count = 0;

	if (window->holder)
		holders[count++] = window->holder;
	for (size_t i = 0; i < timeline->count && count < MOST_HOLDERS; i++) {
		const struct timeline_row *row = &timeline->rows[i];
		__u32 tid = row->type == TIMELINE_RELEASE                               ? row->tid
			    : row->type == TIMELINE_ACQUIRED && row->tid == window->tid ? row->other_tid
											: 0;
		bool known = !tid || tid == window->tid;

		for (int k = 0; k < count; k++)
			known |= holders[k] == tid;
		if (!known)
			holders[count++] = tid;
	}
	return count;
}

/*
 * What a holder did before the window: its last switch or wake-up, as a row of its own time.  It may have been
 * off its CPU for long when the waiter came.
 */
static int add_before(struct timeline *timeline, const struct maps *maps, const struct timeline_window *window)
{
	const struct sizing *sizing = maps->sizing;
	struct context_record last[MOST_HOLDERS], record;
	__u32 holders[MOST_HOLDERS], cpus[MOST_HOLDERS];
	int count = find_holders(timeline, window, holders), err = 0;

	memset(last, 0, sizeof(last));
	for (__u32 cpu = 0; count && cpu < sizing->cpus; cpu++) {
		struct ring ring = maps_context(maps, cpu);
		bool seen[MOST_HOLDERS] = {};
		struct ring_pass pass;
		enum ring_found found;
		int missing = count;

		ring_begin_back(&pass, &ring);
		while (missing && (found = ring_previous(&pass, &record)) < RING_OVERWRITTEN) {
			if (found != RING_COPIED || record.type >= CONTEXT_TYPES || record.time_ns >= window->from_ns)
				continue;
			for (int k = 0; k < count; k++) {
				if (seen[k] ||
				    !is_of_task(meanings[record.type].type, record.tid, record.other_tid, holders[k]))
					continue;
				seen[k] = true;
				missing--;
				if (record.time_ns > last[k].time_ns) {
					last[k] = record;
					cpus[k] = cpu;
				}
			}
		}
	}
	for (int k = 0; !err && k < count; k++)
		if (last[k].time_ns)
			err = add_stretch(timeline, &(struct stretch){.records = &last[k], .count = 1}, cpus[k],
					  sizing->cpus);
	return err;
}

__u32 timeline_taker(const struct maps *maps, __u64 lock, __u64 begin_ns)
{
	const struct sizing *sizing = maps->sizing;
	struct holding_record holding, last = {};

	for (__u32 cpu = 0; sizing->ring_holdings && cpu < sizing->cpus; cpu++) {
		struct ring ring = maps_holdings(maps, cpu);
		struct ring_pass pass;
		enum ring_found found;

		ring_begin_back(&pass, &ring);
		while ((found = ring_previous(&pass, &holding)) != RING_END) {
			/* A turn in the making may be the release. */
			if (found != RING_COPIED)
				return 0;
			if (holding.time_ns <= begin_ns)
				break;
			if (holding.lock == lock && holding.time_ns > last.time_ns)
				last = holding;
		}
	}
	return last.flags & HOLDING_RELEASE ? 0 : last.tid;
}

static int by_time(const void *a, const void *b)
{
	const struct timeline_row *one = a, *other = b;

	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns ? -1 : 1;
	return one->sequence < other->sequence ? -1 : one->sequence > other->sequence;
}

/* The end tells what relieved the wait: three quarters of the room are its. */
static void cut(struct timeline *timeline)
{
	const size_t head = TIMELINE_ROWS / 4, tail = TIMELINE_ROWS - head;

	if (timeline->count <= TIMELINE_ROWS)
		return;
	timeline->left_out = timeline->count - TIMELINE_ROWS;
	memmove(timeline->rows + head, timeline->rows + timeline->count - tail, tail * sizeof(*timeline->rows));
	timeline->count = TIMELINE_ROWS;
}

int timeline_read(struct timeline *timeline, const struct maps *maps, const struct holders *holders,
		  const struct timeline_window *window)
{
	const struct sizing *sizing = maps->sizing;
	struct stretch stretch = {};
	int err = 0;

	*timeline = (struct timeline){.complete = true, .cpu_bytes = (sizing->cpus + 7) / 8};
	timeline->cpus = calloc(1, timeline->cpu_bytes);
	if (!timeline->cpus)
		return -ENOMEM;
	for (__u32 cpu = 0; !err && holders && window->lock && cpu < sizing->cpus; cpu++)
		err = add_holdings(timeline, maps, holders, cpu, window);
	for (__u32 cpu = 0; !err && sizing->ring_context && cpu < sizing->cpus; cpu++) {
		stretch.count = 0;
		err = read_context(timeline, maps, cpu, window, &stretch);
		if (!window->tid || sizing->cpus <= TIMELINE_ALL_CPUS || cpu == window->cpu ||
		    cpu == window->begin_cpu || concerns(&stretch, window))
			mark_cpu(timeline, cpu);
		if (!err && marked(timeline, cpu))
			err = add_stretch(timeline, &stretch, cpu, sizing->cpus);
	}
	free(stretch.records);
	if (!err && window->tid && sizing->ring_context)
		err = add_before(timeline, maps, window);
	if (err) {
		timeline_free(timeline);
		return err;
	}
	if (timeline->count)
		qsort(timeline->rows, timeline->count, sizeof(*timeline->rows), by_time);
	cut(timeline);
	return 0;
}

void timeline_free(struct timeline *timeline)
{
	free(timeline->rows);
	free(timeline->cpus);
	*timeline = (struct timeline){};
}
