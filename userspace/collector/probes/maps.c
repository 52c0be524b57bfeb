// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "lockline.skel.h"
#include "probes/maps.h"

/* Words of tgid bits and of tid bits: PID_MAX_LIMIT is 2^22. */
#define TASK_FILTER_ENTRIES (2u << 16)

int maps_resize(struct lockline_bpf *bpf, const struct sizing *sizing, bool task_filter)
{
	const bool holders = sizing->ring_holdings;
	const struct {
		struct bpf_map *map;
		__u32 entries;
		__u32 value_size; /* 0: as in the object */
	} sizes[] = {
		{bpf->maps.cpu_states, sizing->cpus, 0},
		{bpf->maps.totals, sizing->cpus * sizing->rows, 0},
		{bpf->maps.sleepers, sizing->sleep_slots, 0},
		{bpf->maps.spin_stacks, sizing->cpus * SPIN_DEPTH, sizing->stack_bytes},
		{bpf->maps.sleep_stacks, sizing->sleep_slots * SLEEP_DEPTH, sizing->stack_bytes},
		{bpf->maps.wait_events, sizing->cpus * sizing->ring_events, sizing->event_bytes},
		{bpf->maps.task_filter, task_filter ? TASK_FILTER_ENTRIES : 2, 0},
		{bpf->maps.holding_records, holders ? sizing->cpus * sizing->ring_holdings : 1, 0},
		{bpf->maps.release_states, holders ? sizing->cpus : 1, 0},
		{bpf->maps.release_stacks, holders ? sizing->cpus * RELEASE_STACKS : 1, sizing->stack_bytes},
		{bpf->maps.sleep_owners, holders ? sizing->sleep_slots * SLEEP_DEPTH : 1, 0},
		{bpf->maps.waiter_counts, holders ? WAITER_COUNTS : 1, 0},
		{bpf->maps.focus, holders ? FOCUS_LOCKS : 1, 0},
		{bpf->maps.holding_wakes, holders ? sizing->cpus : 1, 0},
		{bpf->maps.hold_rows, holders ? sizing->cpus * FOCUS_LOCKS : 1, 0},
		{bpf->maps.context_records, sizing->ring_context ? sizing->cpus * sizing->ring_context : 1, 0},
		{bpf->maps.context_states, sizing->ring_context ? sizing->cpus : 1, 0},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int err = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);

		if (!err && sizes[i].value_size)
			err = bpf_map__set_value_size(sizes[i].map, sizes[i].value_size);
		if (err)
			return err;
	}
	return 0;
}

int maps_map(struct mapped_array *array, const struct bpf_map *map)
{
	size_t page = sysconf(_SC_PAGESIZE), value = (bpf_map__value_size(map) + 7) / 8 * 8;

	array->bytes = (value * bpf_map__max_entries(map) + page - 1) / page * page;
	array->data = mmap(NULL, array->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (array->data == MAP_FAILED) {
		array->data = NULL;
		return -errno;
	}
	return 0;
}

int maps_open(struct maps *maps, struct lockline_bpf *bpf, const struct sizing *sizing)
{
	int err;

	*maps = (struct maps){.sizing = sizing};
	err = maps_map(&maps->cpu_states, bpf->maps.cpu_states);
	err = err ?: maps_map(&maps->totals, bpf->maps.totals);
	err = err ?: maps_map(&maps->sleepers, bpf->maps.sleepers);
	err = err ?: maps_map(&maps->spin_stacks, bpf->maps.spin_stacks);
	err = err ?: maps_map(&maps->sleep_stacks, bpf->maps.sleep_stacks);
	err = err ?: maps_map(&maps->wait_events, bpf->maps.wait_events);
	err = err ?: maps_map(&maps->task_filter, bpf->maps.task_filter);
	if (!err && sizing->ring_holdings) {
		err = maps_map(&maps->holding_records, bpf->maps.holding_records);
		err = err ?: maps_map(&maps->release_states, bpf->maps.release_states);
		err = err ?: maps_map(&maps->release_stacks, bpf->maps.release_stacks);
		err = err ?: maps_map(&maps->focus, bpf->maps.focus);
		err = err ?: maps_map(&maps->hold_rows, bpf->maps.hold_rows);
		err = err ?: maps_map(&maps->sleep_owners, bpf->maps.sleep_owners);
	}
	if (!err && sizing->ring_context) {
		err = maps_map(&maps->context_records, bpf->maps.context_records);
		err = err ?: maps_map(&maps->context_states, bpf->maps.context_states);
	}
	if (err)
		maps_close(maps);
	return err;
}

void maps_unmap(struct mapped_array *array)
{
	if (array->data)
		munmap(array->data, array->bytes);
	array->data = NULL;
}

void maps_close(struct maps *maps)
{
	struct mapped_array *arrays[] = {&maps->cpu_states,     &maps->totals,          &maps->sleepers,
					 &maps->spin_stacks,    &maps->sleep_stacks,    &maps->wait_events,
					 &maps->task_filter,    &maps->holding_records, &maps->release_states,
					 &maps->release_stacks, &maps->focus,           &maps->hold_rows,
					 &maps->sleep_owners,   &maps->context_records, &maps->context_states};

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		maps_unmap(arrays[i]);
}

struct cpu_state *maps_cpu(const struct maps *maps, __u32 cpu)
{
	return (struct cpu_state *)maps->cpu_states.data + cpu;
}

struct wait_row *maps_row(const struct maps *maps, __u32 cpu, __u32 row)
{
	return (struct wait_row *)maps->totals.data + (size_t)cpu * maps->sizing->rows + row;
}

struct sleep_slot *maps_sleeper(const struct maps *maps, __u32 index)
{
	return (struct sleep_slot *)maps->sleepers.data + index;
}

const struct wait_stack *maps_spin_stack(const struct maps *maps, __u32 cpu, __u32 depth)
{
	size_t index = (size_t)cpu * SPIN_DEPTH + depth;

	return (void *)((char *)maps->spin_stacks.data + index * maps->sizing->stack_bytes);
}

const struct wait_stack *maps_sleep_stack(const struct maps *maps, __u32 slot, __u32 depth)
{
	size_t index = (size_t)slot * SLEEP_DEPTH + depth;

	return (void *)((char *)maps->sleep_stacks.data + index * maps->sizing->stack_bytes);
}

struct ring maps_events(const struct maps *maps, __u32 cpu)
{
	const struct sizing *sizing = maps->sizing;

	return (struct ring){
		.records = (char *)maps->wait_events.data + (size_t)cpu * sizing->ring_events * sizing->event_bytes,
		.written = &maps_cpu(maps, cpu)->events,
		.count = sizing->ring_events,
		.bytes = sizing->event_bytes,
		.sequence = offsetof(struct wait_event, sequence),
	};
}

struct release_state *maps_release(const struct maps *maps, __u32 cpu)
{
	return (struct release_state *)maps->release_states.data + cpu;
}

struct ring maps_holdings(const struct maps *maps, __u32 cpu)
{
	return (struct ring){
		.records =
			(struct holding_record *)maps->holding_records.data + (size_t)cpu * maps->sizing->ring_holdings,
		.written = &maps_release(maps, cpu)->holdings,
		.count = maps->sizing->ring_holdings,
		.bytes = sizeof(struct holding_record),
		.sequence = offsetof(struct holding_record, sequence),
	};
}

const struct wait_stack *maps_release_stack(const struct maps *maps, __u32 cpu, __u32 slot)
{
	size_t index = (size_t)cpu * RELEASE_STACKS + slot;

	return (void *)((char *)maps->release_stacks.data + index * maps->sizing->stack_bytes);
}

__u64 *maps_focus(const struct maps *maps)
{
	return maps->focus.data;
}

const struct hold_row *maps_hold(const struct maps *maps, __u32 cpu, __u32 slot)
{
	return (struct hold_row *)maps->hold_rows.data + (size_t)cpu * FOCUS_LOCKS + slot;
}

__u32 maps_owner(const struct maps *maps, __u32 slot, __u32 depth)
{
	/* An array's values lie 8 bytes apart at least. */
	const __u64 *owners = maps->sleep_owners.data;

	return owners ? (__u32)owners[(size_t)slot * SLEEP_DEPTH + depth] : 0;
}

struct ring maps_context(const struct maps *maps, __u32 cpu)
{
	return (struct ring){
		.records =
			(struct context_record *)maps->context_records.data + (size_t)cpu * maps->sizing->ring_context,
		.written = &((struct context_state *)maps->context_states.data)[cpu].records,
		.count = maps->sizing->ring_context,
		.bytes = sizeof(struct context_record),
		.sequence = offsetof(struct context_record, sequence),
	};
}
