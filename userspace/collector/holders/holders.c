// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "base/histogram_blob.h"
#include "holders/holder_wakes.h"
#include "holders/holders.h"
#include "recording/recording_rows.h"

/* Turns are written within microseconds of their time, unless a virtual CPU stands still. */
#define SETTLE_NS 1000000ull
#define LOCKS     4096
#define CELLS     32768

/* A turn that was read; stack: id in the recording. */
struct read_holding {
	struct holding_record holding;
	__s64 stack;
	__u64 order; /* among turns of one time */
};

struct holders {
	const struct maps *maps;
	struct recording *recording;
	struct locks *locks;
	struct stacks stacks;
	struct holdings *holdings;
	struct holder_wakes wakes;
	__u64 *read;              /* per CPU */
	struct ring_aside *aside; /* per CPU */
	__s64 *holding_stacks;    /* by CPU and place in its ring: of the turn that was read there last */
	struct read_holding *batch;
	size_t batch_size;
	size_t batch_room;
	__u64 seen; /* turns ever read */
	struct holder_losses losses;
	__u64 spin_ns;     /* waited for spinlocks, as far as this flush has come */
	__u64 spin_ns_old; /* at the last flush */
};

int holders_open(struct holders **out, const struct maps *maps, struct recording *recording, struct locks *locks,
		 const struct stacks *stacks)
{
	struct holders *holders = calloc(1, sizeof(*holders));
	int err;

	if (!holders)
		return -ENOMEM;
	holders->maps = maps;
	holders->recording = recording;
	holders->locks = locks;
	holders->stacks = *stacks;
	holders->wakes = HOLDER_WAKES_CLOSED;
	holders->read = calloc(maps->sizing->cpus, sizeof(*holders->read));
	holders->aside = calloc(maps->sizing->cpus, sizeof(*holders->aside));
	holders->holding_stacks =
		calloc((size_t)maps->sizing->cpus * maps->sizing->ring_holdings, sizeof(*holders->holding_stacks));
	err = holders->read && holders->aside && holders->holding_stacks
		      ? holdings_open(&holders->holdings, LOCKS, CELLS)
		      : -ENOMEM;
	if (err)
		holders_close(holders);
	else
		*out = holders;
	return err;
}

void holders_close(struct holders *holders)
{
	if (!holders)
		return;
	holdings_close(holders->holdings);
	holder_wakes_close(&holders->wakes);
	ring_free_asides(holders->aside, holders->maps->sizing->cpus);
	free(holders->read);
	free(holders->holding_stacks);
	free(holders->batch);
	free(holders);
}

int holders_wake_by(struct holders *holders, int map, int *fd)
{
	int err = holder_wakes_open(&holders->wakes, map, holders->maps->sizing->cpus);

	*fd = holders->wakes.fd;
	return err;
}

static __s64 *holding_stack(const struct holders *holders, __u32 cpu, __u64 position)
{
	__u32 size = holders->maps->sizing->ring_holdings;

	return &holders->holding_stacks[(size_t)cpu * size + (position & (size - 1))];
}

__s64 holders_stack(const struct holders *holders, __u32 cpu, __u64 position)
{
	return position < holders->read[cpu] ? *holding_stack(holders, cpu, position) : 0;
}

static int add(struct holders *holders, const struct holding_record *holding, __u32 cpu, __u64 position)
{
	struct read_holding *read;
	const __u64 *frames;
	int count = 0;

	if (holders->batch_size == holders->batch_room) {
		size_t room = holders->batch_room ? holders->batch_room * 2 : 4096;
		struct read_holding *grown = realloc(holders->batch, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		holders->batch = grown;
		holders->batch_room = room;
	}
	read = &holders->batch[holders->batch_size++];
	*read = (struct read_holding){.holding = *holding, .order = holders->seen++};
	*holding_stack(holders, cpu, position) = 0;
	if (!holding->stack || holding->stack > RELEASE_STACKS)
		return 0;
	frames = maps_release_stack(holders->maps, cpu, holding->stack - 1)->kernel;
	while (count < STACK_FRAMES && frames[count])
		count++;
	count = stacks_trim(holders->stacks.symbols, &frames, count);
	read->stack = stacks_id(&holders->stacks, 0, frames, count);
	*holding_stack(holders, cpu, position) = read->stack;
	return read->stack < 0 ? -EIO : 0;
}

static struct ring ring_of(const struct holders *holders, __u32 cpu)
{
	struct ring ring = maps_holdings(holders->maps, cpu);

	ring.aside = &holders->aside[cpu];
	return ring;
}

static int read_ring(struct holders *holders, __u32 cpu)
{
	struct ring ring = ring_of(holders, cpu);
	struct ring_losses *losses = &holders->losses.ring;
	struct holding_record holding;
	struct ring_pass pass;
	int err = 0;

	ring_begin(&pass, &ring, holders->read[cpu], losses);
	while (!err && ring_next(&pass, &holding, losses))
		err = add(holders, &holding, cpu, pass.position - 1);
	holders->read[cpu] = pass.position;
	/* Their stacks have been read. */
	__atomic_store_n(&maps_release(holders->maps, cpu)->stack_tokens, RELEASE_TOKENS, __ATOMIC_RELAXED);
	return err;
}

void holders_put_aside(struct holders *holders)
{
	holder_wakes_clear(&holders->wakes);
	for (__u32 cpu = 0; cpu < holders->maps->sizing->cpus; cpu++) {
		const struct ring ring = ring_of(holders, cpu);

		ring_put_aside(&ring, &holders->read[cpu], &holders->losses.ring);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct read_holding *one = a, *other = b;

	if (one->holding.time_ns != other->holding.time_ns)
		return one->holding.time_ns < other->holding.time_ns ? -1 : 1;
	return one->order < other->order ? -1 : one->order > other->order;
}

int holders_drain(struct holders *holders, __u64 now_ns, bool last)
{
	size_t settled = 0;
	int err = 0;

	/* First: what is written from here on tells anew. */
	holder_wakes_clear(&holders->wakes);
	for (__u32 cpu = 0; !err && cpu < holders->maps->sizing->cpus; cpu++)
		err = read_ring(holders, cpu);
	if (!holders->batch_size)
		return err;
	qsort(holders->batch, holders->batch_size, sizeof(*holders->batch), by_time);
	for (; settled < holders->batch_size; settled++) {
		const struct read_holding *read = &holders->batch[settled];

		if (!last && read->holding.time_ns + SETTLE_NS > now_ns)
			break;
		if (read->holding.flags & HOLDING_RELEASE)
			holdings_release(holders->holdings, &read->holding, read->stack);
		else
			holdings_wait(holders->holdings, &read->holding);
	}
	holders->batch_size -= settled;
	memmove(holders->batch, holders->batch + settled, holders->batch_size * sizeof(*holders->batch));
	return err;
}

/* The holder's row among the tasks of the recording; one that is known as a waiter keeps that row. */
static __s64 task_of(struct holders *holders, __u32 index)
{
	struct holder *holder = holdings_holder(holders->holdings, index);
	char comm[sizeof(holder->comm)] = "";
	int err;

	if (index == HOLDER_UNKNOWN || holder->id)
		return holder->id;
	if (holder->comm[0]) {
		memcpy(comm, holder->comm, sizeof(comm));
		holder->id = recording_find_task(holders->recording, holder->tid, holder->tgid, comm);
	} else {
		/* What it is called now. */
		proc_comm(holder->tid, comm, sizeof(comm));
		holder->id = recording_find_task_by_tid(holders->recording, holder->tid);
	}
	if (holder->id)
		return holder->id;
	err = recording_put(holders->recording, waiter, .tid = holder->tid, .tgid = holder->tgid, .comm = comm,
			    .cgroup = 0);
	holder->id = err ?: recording_find_task(holders->recording, holder->tid, holder->tgid, comm);
	return holder->id;
}

static __s64 lock_id(struct holders *holders, __u64 address)
{
	struct known_lock *lock = locks_find(holders->locks, address);

	return lock ? lock->id : OTHER_LOCK;
}

static int store_caused(const struct caused *caused, void *data)
{
	struct holders *holders = data;
	__s64 task = task_of(holders, caused->holder), lock = lock_id(holders, caused->lock);

	if (task < 0)
		return task;
	if (lock == OTHER_LOCK)
		return 0;
	if (caused->stack)
		return recording_put(holders->recording, release_stack, .lock = lock, .kind = caused->kind,
				     .holder = task, .stack = caused->stack, .samples = caused->samples,
				     .releases = caused->releases, .caused_ns = caused->ns);
	return recording_put(holders->recording, holder_total, .lock = lock, .kind = caused->kind, .holder = task,
			     .releases = caused->releases, .waits = caused->waits, .caused_ns = caused->ns,
			     .max_caused_ns = caused->max_ns);
}

/* The holds of a lock in focus, over all CPUs. */
static void sum_holds(const struct holders *holders, __u64 lock, struct hold_row *sum)
{
	memset(sum, 0, sizeof(*sum));
	if (maps_focus(holders->maps)[focus_slot(lock)] != lock)
		return;
	for (__u32 cpu = 0; cpu < holders->maps->sizing->cpus; cpu++) {
		const struct hold_row *row = maps_hold(holders->maps, cpu, focus_slot(lock));

		sum->holds += __atomic_load_n(&row->holds, __ATOMIC_ACQUIRE);
		sum->hold_ns += row->hold_ns;
		if (row->max_ns > sum->max_ns)
			sum->max_ns = row->max_ns;
		for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
			sum->histogram[i] += row->histogram[i];
	}
}

/* A spinlock with a hundredth of all waiting comes into focus where its place is free, and stays. */
static void bring_into_focus(struct holders *holders, const struct fairness *fairness)
{
	__u64 *place = &maps_focus(holders->maps)[focus_slot(fairness->lock)];

	holders->spin_ns += fairness->wait_ns;
	if (!*place && holders->spin_ns_old && fairness->wait_ns >= holders->spin_ns_old / 100)
		__atomic_store_n(place, fairness->lock, __ATOMIC_RELAXED);
}

static int store_fairness(const struct fairness *fairness, void *data)
{
	struct holders *holders = data;
	struct histogram_blob blob = {.size = 0};
	struct hold_row holds = {};
	__s64 lock = lock_id(holders, fairness->lock);

	if (fairness->kind == KIND_SPINLOCK) {
		bring_into_focus(holders, fairness);
		sum_holds(holders, fairness->lock, &holds);
	}
	/* Locks without a row of their own would overwrite each other's. */
	if (lock == OTHER_LOCK)
		return 0;
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram_put(&blob, i, holds.histogram[i]);
	return recording_put(
		holders->recording, fairness, .lock = lock, .kind = fairness->kind, .waits = fairness->waits,
		.releases = fairness->releases, .retakes = fairness->retakes, .overtaken = fairness->overtaken,
		.bypasses = fairness->bypasses, .max_bypasses = fairness->max_bypasses, .handoffs = fairness->handoffs,
		.handoff_ns = fairness->handoff_ns, .max_handoff_ns = fairness->max_handoff_ns, .holds = holds.holds,
		.hold_ns = holds.hold_ns, .max_hold_ns = holds.max_ns, .hold_histogram = {blob.bytes, blob.size});
}

int holders_flush(struct holders *holders)
{
	holders->spin_ns_old = holders->spin_ns;
	holders->spin_ns = 0;
	return holdings_changed(holders->holdings, store_caused, store_fairness, holders);
}

void holders_losses(const struct holders *holders, struct holder_losses *losses, struct holdings_losses *judged)
{
	*losses = holders->losses;
	for (__u32 cpu = 0; cpu < holders->maps->sizing->cpus; cpu++)
		losses->holds += maps_release(holders->maps, cpu)->holds_lost;
	*judged = *holdings_losses(holders->holdings);
}

size_t holders_bytes(const struct holders *holders)
{
	const struct sizing *sizing = holders->maps->sizing;

	return holdings_bytes(holders->holdings) + holders->batch_room * sizeof(*holders->batch) +
	       (size_t)sizing->cpus * sizing->ring_holdings * sizeof(*holders->holding_stacks);
}
