// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "waits/events.h"
#include "waits/in_flight.h"
#include "recording/recording_rows.h"

/* Outliers that an interval keeps, and that it stores before it looks for the longest. */
#define OUTLIERS_KEPT   1000
#define OUTLIERS_STORED 4000
/* Waits in progress that are listed, and the age from which they are. */
#define OPEN_WAITS_LISTED 256
#define OPEN_WAIT_AGE_NS  1000000ull

struct events {
	const struct maps *maps;
	struct recording *recording;
	struct locks *locks;
	struct totals *totals;
	struct stacks stacks;
	struct cgroup_paths *cgroups;
	struct containers *containers;
	const struct lock_names *names;
	__u64 *read;              /* per CPU: position of the next record */
	struct ring_aside *aside; /* per CPU */
	char *batch;              /* the records of one CPU, copied */
	size_t batch_size;        /* records in it */
	bool rows_met;            /* all rows of that CPU, for the sake of this batch */
	__u64 outliers;           /* of this interval */
	__u32 next_dead;          /* of in_flight_free_dead() */
	on_wait on_wait;          /* NULL: nobody wants the long waits */
	void *listener;
	struct event_losses losses;
};

int events_open(struct events **out, const struct maps *maps, struct recording *recording, struct locks *locks,
		struct totals *totals, const struct stacks *stacks, struct cgroup_paths *cgroups,
		struct containers *containers, const struct lock_names *names)
{
	const struct sizing *sizing = maps->sizing;
	struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	events->maps = maps;
	events->recording = recording;
	events->locks = locks;
	events->totals = totals;
	events->stacks = *stacks;
	events->cgroups = cgroups;
	events->containers = containers;
	events->names = names;
	events->read = calloc(sizing->cpus, sizeof(*events->read));
	events->aside = calloc(sizing->cpus, sizeof(*events->aside));
	events->batch = malloc((size_t)sizing->ring_events * sizing->event_bytes);
	if (!events->read || !events->aside || !events->batch) {
		events_close(events);
		return -ENOMEM;
	}
	*out = events;
	return 0;
}

void events_close(struct events *events)
{
	if (!events)
		return;
	ring_free_asides(events->aside, events->maps->sizing->cpus);
	free(events->read);
	free(events->batch);
	free(events);
}

void events_listen(struct events *events, on_wait on_wait, void *data)
{
	events->on_wait = on_wait;
	events->listener = data;
}

const struct event_losses *events_losses(const struct events *events)
{
	return &events->losses;
}

static struct wait_event *batch_event(const struct events *events, size_t index)
{
	return (void *)(events->batch + index * events->maps->sizing->event_bytes);
}

static struct ring ring_of(const struct events *events, __u32 cpu)
{
	struct ring ring = maps_events(events->maps, cpu);

	ring.aside = &events->aside[cpu];
	return ring;
}

/* Copies what the CPU wrote since the last call, as far as a batch goes; a record in the making is left for the next. */
static void read_ring(struct events *events, __u32 cpu)
{
	struct ring ring = ring_of(events, cpu);
	struct ring_pass pass;

	events->batch_size = 0;
	events->rows_met = false;
	ring_begin(&pass, &ring, events->read[cpu], &events->losses.ring);
	while (events->batch_size < ring.count &&
	       ring_next(&pass, batch_event(events, events->batch_size), &events->losses.ring))
		events->batch_size++;
	events->read[cpu] = pass.position;
}

static int kernel_frames(const struct events *events, const struct wait_event *event, const __u64 **frames)
{
	int count = event->kernel_frames < STACK_FRAMES ? event->kernel_frames : STACK_FRAMES;

	*frames = event->stack.kernel;
	return count > 0 ? stacks_trim(events->stacks.symbols, frames, count) : 0;
}

/* find_stack of totals_meet_rows() */
static int stack_of_lock(void *data, __u64 lock, const __u64 **frames)
{
	const struct events *events = data;

	for (size_t i = 0; i < events->batch_size; i++) {
		const struct wait_event *event = batch_event(events, i);

		if (event->lock == lock && event->kernel_frames > 0)
			return kernel_frames(events, event, frames);
	}
	return 0;
}

/* Once for each cgroup: its files may be gone when the next task of it waits. */
static int put_cgroup(struct events *events, __u64 id)
{
	struct container is;
	const char *path;
	__s64 known = recording_has_cgroup(events->recording, id);
	int err;

	if (known)
		return known < 0 ? known : 0;
	path = cgroup_path(events->cgroups, id);
	err = recording_put(events->recording, cgroup, .id = id, .path = path);
	container_find(events->containers, path, &is);
	if (err || !container_is_known(&is))
		return err;
	return recording_put(events->recording, container, .cgroup = id, .runtime = is.runtime, .container = is.id,
			     .name = is.name, .image = is.image, .pod = is.pod, .namespace = is.space,
			     .pod_uid = is.pod_uid, .unit = is.unit, .slice = is.slice, .source = is.source);
}

static __s64 waiter_id(struct events *events, const struct wait_event *event)
{
	char comm[sizeof(event->comm) + 1] = "";
	__s64 id;
	int err;

	memcpy(comm, event->comm, sizeof(event->comm));
	id = recording_find_waiter(events->recording, event->tid, event->tgid, comm, event->cgroup);
	if (id)
		return id;
	err = recording_put(events->recording, waiter, .tid = event->tid, .tgid = event->tgid, .comm = comm,
			    .cgroup = event->cgroup);
	err = err ?: put_cgroup(events, event->cgroup);
	return err ?: recording_find_waiter(events->recording, event->tid, event->tgid, comm, event->cgroup);
}

/* The lock's row in the recording: waits of a lock without a row of its own are those of all others. */
static __s64 lock_id(struct events *events, const struct wait_event *event, const __u64 *frames, int count)
{
	struct lock_hint hint = {
		.address = event->lock,
		.kind = event->kind,
		.frames = frames,
		.frame_count = count,
	};
	struct known_lock *lock;
	int err = 0;

	if (event->flags & EVENT_OTHER_ROW)
		return OTHER_LOCK;
	/* Its row was claimed while its first wait still lasted.  Once for a batch: a lock without a place stays unknown. */
	if (!locks_find(events->locks, event->lock) && !events->rows_met) {
		events->rows_met = true;
		err = totals_meet_rows(events->totals, event->cpu, true, stack_of_lock, events);
	}
	if (err)
		return err;
	lock = locks_find(events->locks, event->lock) ? locks_meet(events->locks, &hint, &err) : NULL;
	if (err)
		return err;
	return lock ? lock->id : OTHER_LOCK;
}

/* Keeps the longest. */
static int trim_outliers(struct events *events, __s64 interval)
{
	__u64 dropped;
	int err = recording_trim_outliers(events->recording, interval, OUTLIERS_KEPT, &dropped);

	events->losses.outliers_dropped += dropped;
	events->outliers = OUTLIERS_KEPT;
	return err;
}

static int on_event(struct events *events, const struct wait_event *event, struct long_wait *wait)
{
	wait->outlier = recording_last_outlier(events->recording);
	wait->begin_ns = event->begin_ns;
	wait->wait_ns = event->wait_ns;
	wait->lock_address = event->lock;
	wait->kind = event->kind;
	wait->tid = event->tid;
	wait->tgid = event->tgid;
	wait->cpu = event->cpu;
	wait->begin_cpu = event->begin_cpu;
	wait->policy = event->policy;
	wait->priority = event->priority;
	return wait->outlier < 0 ? -EIO : events->on_wait(events->listener, wait);
}

static int store_event(struct events *events, const struct wait_event *event, __s64 interval)
{
	const __u64 *frames;
	int count = kernel_frames(events, event, &frames), err;
	int user_count = event->user_frames < STACK_FRAMES ? event->user_frames : STACK_FRAMES;
	__s64 lock = lock_id(events, event, frames, count), waiter = waiter_id(events, event);
	__s64 stack = stacks_id(&events->stacks, 0, frames, count);
	__s64 user_stack = stacks_id(&events->stacks, event->tgid, event->stack.user, user_count);

	if (lock < 0 || waiter < 0 || stack < 0 || user_stack < 0)
		return -EIO;
	err = recording_put(events->recording, sample_total, .waiter = waiter, .lock = lock, .kind = event->kind,
			    .stack = stack, .user_stack = user_stack, .waits = event->weight,
			    .wait_ns = event->weight_ns, .samples = 1);
	if (!err && interval != NO_INTERVAL)
		err = recording_put(events->recording, sample_interval, .waiter = waiter, .lock = lock,
				    .kind = event->kind, .stack = stack, .user_stack = user_stack,
				    .waits = event->weight, .wait_ns = event->weight_ns, .interval = interval,
				    .samples = 1);
	if (err || !(event->flags & EVENT_OUTLIER))
		return err;
	if (events->outliers++ >= OUTLIERS_STORED)
		err = trim_outliers(events, interval);
	if (err)
		return err;
	err = recording_put(events->recording, outlier, .interval = interval, .begin_ns = event->begin_ns,
			    .wait_ns = event->wait_ns, .cpu = event->cpu, .begin_cpu = event->begin_cpu,
			    .waiter = waiter, .lock = lock, .kind = event->kind, .result = event->result,
			    .stack = stack, .user_stack = user_stack);
	if (err || !events->on_wait)
		return err;
	return on_event(
		events, event,
		&(struct long_wait){
			.lock = lock, .waiter = waiter, .stack = stack, .frames = frames, .frame_count = count});
}

/* At most as many as the ring holds. */
static int drain_batch(struct events *events, __u32 cpu, __s64 interval)
{
	int err;

	read_ring(events, cpu);
	err = totals_meet_rows(events->totals, cpu, false, stack_of_lock, events);
	if (events->batch_size && recording_is_full(events->recording)) {
		events->losses.not_written += events->batch_size;
		return err;
	}
	for (size_t i = 0; !err && i < events->batch_size; i++)
		err = store_event(events, batch_event(events, i), interval);
	return err;
}

int events_drain(struct events *events, __s64 interval)
{
	bool more;
	int err = 0;

	for (__u32 cpu = 0; !err && cpu < events->maps->sizing->cpus; cpu++) {
		do {
			more = ring_has_aside(&events->aside[cpu]);
			err = drain_batch(events, cpu, interval);
		} while (!err && more);
	}
	return err;
}

void events_put_aside(struct events *events)
{
	for (__u32 cpu = 0; cpu < events->maps->sizing->cpus; cpu++) {
		const struct ring ring = ring_of(events, cpu);

		ring_put_aside(&ring, &events->read[cpu], &events->losses.ring);
	}
}

/* What is known of a wait that still lasts. */
static int on_open_wait(struct events *events, const struct open_wait *wait, __s64 lock, __u64 now_ns)
{
	const __u64 *frames = wait->stack->kernel;
	int count = wait->frames < STACK_FRAMES ? wait->frames : STACK_FRAMES;
	struct long_wait noticed = {
		.begin_ns = wait->begin_ns,
		.wait_ns = now_ns - wait->begin_ns,
		.lock_address = wait->lock,
		.lock = lock,
		.kind = wait->kind,
		.tid = wait->tid,
		.tgid = wait->tgid,
		.cpu = wait->cpu,
		.begin_cpu = wait->cpu,
		.policy = -1,
	};

	count = count > 0 ? stacks_trim(events->stacks.symbols, &frames, count) : 0;
	noticed.frames = frames;
	noticed.frame_count = count;
	noticed.stack = stacks_id(&events->stacks, 0, frames, count);
	return noticed.stack < 0 ? -EIO : events->on_wait(events->listener, &noticed);
}

/* As the kernel has it, like the names of those whose waits have ended. */
static bool read_comm(__u32 tid, char *comm, size_t size)
{
	ssize_t length = proc_read(tid, "comm", comm, size);

	comm[strcspn(comm, "\n")] = '\0';
	return length > 0;
}

/* One look at the waits in progress. */
struct look {
	struct events *events;
	__u64 now_ns;
	__u32 listed;
	bool stored; /* among those of the recording; else they are only heard of */
};

static int look_at_open_wait(void *data, const struct open_wait *wait)
{
	struct look *look = data;
	struct events *events = look->events;
	__u64 now_ns = look->now_ns;
	struct lock_hint hint = {.address = wait->lock, .kind = wait->kind};
	struct known_lock *lock;
	char comm[32];
	int err;

	if (look->listed++ >= OPEN_WAITS_LISTED)
		return 0;
	lock = locks_meet(events->locks, &hint, &err);
	if (err)
		return err;
	/* A thread that is gone waits for nothing: its slot lost its end. */
	if (!read_comm(wait->tid, comm, sizeof(comm)) && wait->tid)
		return 0;
	if (look->stored)
		err = recording_put(events->recording, open_wait, .tid = wait->tid, .tgid = wait->tgid, .comm = comm,
				    .cpu = wait->cpu, .lock = lock ? lock->id : OTHER_LOCK, .kind = wait->kind,
				    .begin_ns = wait->begin_ns, .age_ns = now_ns - wait->begin_ns);
	if (err || !events->on_wait)
		return err;
	return on_open_wait(events, wait, lock ? lock->id : OTHER_LOCK, now_ns);
}

int events_end_interval(struct events *events, __s64 interval, __u64 now_ns, __u64 *open)
{
	struct look look = {.events = events, .now_ns = now_ns, .stored = true};
	int err = 0;

	*open = 0;
	if (events->outliers > OUTLIERS_KEPT)
		err = trim_outliers(events, interval);
	events->outliers = 0;
	in_flight_free_dead(events->maps, now_ns, &events->next_dead);
	in_flight_let_keep(events->maps);
	err = err ?: recording_clear(events->recording, TABLE_OPEN_WAIT);
	return err
		       ?: in_flight_visit(events->maps, events->names, now_ns - OPEN_WAIT_AGE_NS, look_at_open_wait,
					  &look, open);
}

int events_look(struct events *events, __u64 now_ns, __u64 age_ns)
{
	struct look look = {.events = events, .now_ns = now_ns};
	__u64 open;

	if (!events->on_wait || age_ns >= now_ns)
		return 0;
	if (age_ns < OPEN_WAIT_AGE_NS)
		age_ns = OPEN_WAIT_AGE_NS;
	return in_flight_visit(events->maps, events->names, now_ns - age_ns, look_at_open_wait, &look, &open);
}
