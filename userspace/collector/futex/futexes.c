// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/ring.h"
#include "futex/futex_bucket_waits.h"
#include "futex/futex_holders.h"
#include "futex/futex_sampling.h"
#include "futex/futex_stacks.h"
#include "futex/futex_waiting.h"
#include "futex/futexes.h"
#include "futex/futex_rows.h"
#include "base/histogram_blob.h"
#include "lockline.skel.h"
#include "probes/maps.h"
#include "base/small_file.h"
#include "base/proc.h"
#include "recording/recording_fold.h"
#include "recording/recording_rows.h"

/* Waits in progress that are reported with their owner; those beyond are counted. */
#define OWNED_WAITS 256
/* Threads that wait for long whose stacks are looked at in one interval. */
#define WAITING_SAMPLES 16
/* A slot of a thread that is gone is freed when it is so old. */
#define STALE_NS 1000000000ull

/* Who owns what a wait in progress is for. */
struct owned {
	__u32 owner;
	__u64 since_ns; /* when that was first seen, at each look since */
};

_Static_assert(sizeof(struct owned) + sizeof(__u64) == FUTEX_OWNED_BYTES, "owned and looked_at");

struct futexes {
	struct recording *recording;
	struct locks *locks;
	struct stacks stacks;
	struct mapped_array slot_array, table, states, events, goroutines;
	__u32 goroutine_slots; /* 0 without --go */
	struct futex_slots slots;
	struct futex_stacks user_stacks;
	struct naming_sample sample; /* that is stored at once */
	__u32 cpus;
	__u64 *read;              /* per CPU */
	struct ring_aside *aside; /* per CPU */
	struct futex_sampling sampling;
	__u64 *looked_at;    /* per slot: begin of the wait whose owner was looked for */
	struct owned *owned; /* per slot: and was found */
	__u32 owned_waits;
	__u64 owned_untold;    /* in the last interval */
	__u32 waiting_samples; /* that may still be made in this one */
	struct futex_met met;  /* waits that had begun before the recording */
	struct ring_losses losses;
	struct futexes_known known;
	struct futex_rows rows;
	struct futex_holders holders;
	struct futex_bucket_waits buckets;
};

int futexes_resize(struct lockline_bpf *bpf, const struct sizing *sizing, bool wanted)
{
	__u32 cpus = sizing->cpus, rows = sizing->futex_rows, stacks = futex_stacks_per_cpu_of(cpus);
	int err = bpf_map__set_max_entries(bpf->maps.futex_slots, wanted ? sizing->futex_slots : 1);

	err = err ?: bpf_map__set_max_entries(bpf->maps.futex_rows, wanted ? cpus * rows : 1);
	err = err ?: bpf_map__set_max_entries(bpf->maps.futex_buckets, wanted ? cpus * FUTEX_BUCKET_ROWS : 1);
	err = err ?: bpf_map__set_max_entries(bpf->maps.futex_states, wanted ? cpus : 1);
	err = err ?: bpf_map__set_max_entries(bpf->maps.futex_events, wanted ? cpus * FUTEX_RING_EVENTS : 1);
	err = err ?: bpf_map__set_max_entries(bpf->maps.futex_stacks, wanted && stacks ? cpus * stacks : 1);
	bpf->rodata->futex_stacks_per_cpu = wanted ? stacks : 0;
	bpf->rodata->record_futexes = wanted;
	bpf->rodata->futex_rows_per_cpu = wanted ? rows : 1;
	bpf->rodata->futex_slot_mask = wanted ? sizing->futex_slots - 1 : 0;
	return err;
}

int futexes_open(struct futexes **out, struct lockline_bpf *bpf, const struct sizing *sizing,
		 struct recording *recording, struct locks *locks, const struct stacks *stacks, __u32 samples)
{
	struct futexes *futexes = calloc(1, sizeof(*futexes));
	int err = -ENOMEM;

	if (!futexes)
		return err;
	futexes->recording = recording;
	futexes->locks = locks;
	futexes->stacks = *stacks;
	futexes->sampling.a_second = samples;
	futexes->cpus = sizing->cpus;
	futexes_known_open(&futexes->known, sizing->futexes);
	futexes->read = calloc(sizing->cpus, sizeof(*futexes->read));
	futexes->aside = calloc(sizing->cpus, sizeof(*futexes->aside));
	futexes->looked_at = calloc(sizing->futex_slots, sizeof(*futexes->looked_at));
	futexes->owned = calloc(sizing->futex_slots, sizeof(*futexes->owned));
	if (futexes->read && futexes->aside && futexes->looked_at && futexes->owned) {
		err = maps_map(&futexes->slot_array, bpf->maps.futex_slots);
		err = err ?: maps_map(&futexes->table, bpf->maps.futex_rows);
		err = err ?: futex_bucket_waits_open(&futexes->buckets, bpf->maps.futex_buckets, sizing->cpus);
		err = err ?: maps_map(&futexes->states, bpf->maps.futex_states);
		err = err ?: maps_map(&futexes->events, bpf->maps.futex_events);
		if (!err && bpf_map__max_entries(bpf->maps.go_slots) == GO_SLOTS) {
			err = maps_map(&futexes->goroutines, bpf->maps.go_slots);
			futexes->goroutine_slots = GO_SLOTS;
		}
		err = err ?: futex_stacks_open(&futexes->user_stacks, bpf->maps.futex_stacks, sizing->cpus);
		err = err
			      ?: futex_rows_open(&futexes->rows, &futexes->known, futexes->table.data, sizing->cpus,
						 sizing->futex_rows);
		futexes->slots = (struct futex_slots){futexes->slot_array.data, sizing->futex_slots - 1};
	}
	if (err)
		futexes_close(futexes);
	else
		*out = futexes;
	return err;
}

void futexes_close(struct futexes *futexes)
{
	if (!futexes)
		return;
	maps_unmap(&futexes->slot_array);
	maps_unmap(&futexes->table);
	futex_bucket_waits_close(&futexes->buckets);
	maps_unmap(&futexes->states);
	maps_unmap(&futexes->events);
	maps_unmap(&futexes->goroutines);
	futex_stacks_close(&futexes->user_stacks);
	futex_rows_close(&futexes->rows);
	futexes_known_close(&futexes->known);
	ring_free_asides(futexes->aside, futexes->cpus);
	free(futexes->read);
	free(futexes->looked_at);
	free(futexes->owned);
	free(futexes);
}

static struct futex_state *state_of(const struct futexes *futexes, __u32 cpu)
{
	return (struct futex_state *)futexes->states.data + cpu;
}

/* A task's row in the recording; comm "": what it is called now. */
static __s64 task_id(struct futexes *futexes, __u32 tid, __u32 tgid, const char *comm)
{
	char now[32] = "";
	__s64 id;
	int err;

	if (!*comm) {
		proc_comm(tid, now, sizeof(now));
		comm = now;
	}
	id = recording_find_task(futexes->recording, tid, tgid, comm);
	if (id)
		return id;
	err = recording_put(futexes->recording, waiter, .tid = tid, .tgid = tgid, .comm = comm, .cgroup = 0);
	return err ?: recording_find_task(futexes->recording, tid, tgid, comm);
}

/* It has tokens of its own, and no copy of a stack. */
static bool of_goroutine(const struct futex_event *event)
{
	return event->op >= FUTEX_OP_GO_POOL && event->op <= FUTEX_OP_GO_RECEIVE;
}

/* Believed if there is that thread. */
static __u32 owner_of(const struct futex_event *event)
{
	return futex_thread(event->tgid, futex_event_owner(event), event->address, event->flags & FUTEX_EVENT_SHARED);
}

static int add_owner(struct futexes *futexes, struct futex *futex, const struct futex_event *event, __u32 owner)
{
	__u32 tgid = event->tgid;
	__s64 task;

	futex->owner_samples++;
	if (!futex_event_is_pi(event) && event->value > 2 &&
	    futex_thread(event->tgid, event->value, event->address, false))
		futex->threads++;
	if (!owner || owner == event->tid)
		return 0;
	futex->owners++;
	if (event->flags & FUTEX_EVENT_SHARED)
		task_leader(owner, &tgid);
	task = task_id(futexes, owner, tgid, "");
	if (task < 0)
		return task;
	return recording_put(futexes->recording, futex_sample, .futex = futex->id, .role = "owner", .task = task,
			     .waits = event->weight, .wait_ns = event->weight_ns, .samples = 1);
}

/* With its stack as it is, or later, unwound. */
static int store_sample(struct futexes *futexes, __u32 cpu, const struct futex_event *event, const struct futex *futex,
			__s64 task)
{
	struct naming_sample *place = futexes->stacks.naming ? naming_queue_place(futexes->stacks.naming) : NULL;
	struct naming_sample *sample = place ?: &futexes->sample;
	const int frames = event->user_frames < STACK_FRAMES ? event->user_frames : STACK_FRAMES;

	sample->stack.tgid = event->tgid;
	/* Who wakes runs on. */
	sample->stack.tid = event->flags & FUTEX_EVENT_WAKE ? 0 : event->tid;
	sample->count = frames > 0 ? frames : 0;
	memcpy(sample->frames, event->user, sample->count * sizeof(*sample->frames));
	sample->wake = event->flags & FUTEX_EVENT_WAKE;
	sample->futex = futex->id;
	sample->task = task;
	sample->waits = event->weight;
	sample->wait_ns = event->weight_ns;
	if (!place || !futex_stacks_copy(&futexes->user_stacks, cpu, event, &sample->stack))
		return stacks_put_sample(&futexes->stacks, sample);
	naming_queue_unwind(futexes->stacks.naming);
	return 0;
}

static int store_event(struct futexes *futexes, __u32 cpu, const struct futex_event *event)
{
	struct futex *futex =
		futexes_meet(&futexes->known, event->futex_tgid, event->address, event->flags & FUTEX_EVENT_SHARED);
	char comm[sizeof(event->comm) + 1] = "";
	__u32 owner;
	__s64 task;
	int err;

	memcpy(comm, event->comm, sizeof(event->comm));
	/* A thread's, where the process is gone before its own is known. */
	if (!*futex->comm && event->tgid == futex->key.tgid)
		memcpy(futex->comm, event->comm, sizeof(futex->comm));
	task = task_id(futexes, event->tid, event->tgid, comm);
	if (task < 0)
		return task;
	err = store_sample(futexes, cpu, event, futex, task);
	if (err || event->flags & FUTEX_EVENT_WAKE)
		return err;
	owner = owner_of(event);
	if (owner && futex != &futexes->known.nameless)
		futex_holders_meet(&futexes->holders,
				   &(struct held_mutex){.futex = futex->id,
							.address = event->address,
							.seen_ns = now_ns(),
							.tgid = event->tgid,
							.pi = futex_event_is_pi(event),
							.shared = event->flags & FUTEX_EVENT_SHARED});
	return add_owner(futexes, futex, event, owner);
}

static struct naming_wish wish_of(const struct futex *futex)
{
	return (struct naming_wish){NAMED_FUTEX, futex->key.tgid, futex->key.address, futex->id};
}

/* Of those for which there was no room: a lock that waits no more comes to no other question. */
static void ask_again(struct futexes *futexes)
{
	struct futex *futex, *next;

	HASH_ITER (by_key, futexes->known.by_key, futex, next) {
		const struct naming_wish wish = wish_of(futex);

		if (!futex->unasked || task_ended(futex->key.tgid))
			continue;
		if (!naming_queue_ask_again(futexes->stacks.naming, &wish))
			return;
		futex->unasked = false;
	}
}

/* At once: the process may soon be gone. */
static int store_name(struct futexes *futexes, struct futex *futex)
{
	const struct naming_wish wish = wish_of(futex);
	char comm[32] = "";

	/* Its name comes later: see stacks_put_names(). */
	if (futex->key.tgid) {
		futex->unasked = !naming_queue_ask(futexes->stacks.naming, &wish);
		proc_comm(futex->key.tgid, comm, sizeof(comm));
		if (!*comm)
			snprintf(comm, sizeof(comm), "%.*s", (int)sizeof(futex->comm), futex->comm);
		make_printable(comm);
	}
	return recording_put(futexes->recording, futex, .id = futex->id, .tgid = futex->key.tgid, .comm = comm,
			     .address = futex->key.address, .shared = futex->shared, .name = "", .object = "");
}

static int store_names(struct futexes *futexes)
{
	struct futexes_known *known = &futexes->known;
	int err = known->nameless.named ? 0 : store_name(futexes, &known->nameless);

	known->nameless.named = !err;
	for (; !err && known->unnamed; known->unnamed = known->unnamed->by_key.next)
		if (!known->unnamed->same_as)
			err = store_name(futexes, known->unnamed);
	return err;
}

static struct ring ring_of(const struct futexes *futexes, __u32 cpu)
{
	return (struct ring){
		.records = (struct futex_event *)futexes->events.data + (size_t)cpu * FUTEX_RING_EVENTS,
		.written = &state_of(futexes, cpu)->events,
		.count = FUTEX_RING_EVENTS,
		.bytes = sizeof(struct futex_event),
		.sequence = offsetof(struct futex_event, sequence),
		.aside = &futexes->aside[cpu],
	};
}

void futexes_put_aside(struct futexes *futexes)
{
	for (__u32 cpu = 0; cpu < futexes->cpus; cpu++) {
		const struct ring ring = ring_of(futexes, cpu);

		ring_put_aside(&ring, &futexes->read[cpu], &futexes->losses);
	}
}

static __s64 bits(const __u64 one[2], const __u64 other[2])
{
	return __builtin_popcountll(one[0] & other[0]) + __builtin_popcountll(one[1] & other[1]);
}

static int store_total(struct futexes *futexes, struct futex *futex)
{
	struct histogram_blob waits = {.size = 0}, latencies = {.size = 0};
	struct futex_row row, *sum = &row;

	futex_rows_sum(&futexes->rows, futex, sum);
	sum->ops |= futex->open_ops;
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		histogram_put(&waits, i, sum->histogram[i]);
		histogram_put(&latencies, i, sum->latency_histogram[i]);
	}
	futex->stored = sum->calls + sum->wakes;
	futex->open_stored = futex->open_waits;
	if (sum->semaphores) {
		int err = recording_put(futexes->recording, futex_semaphore, .futex = futex->id,
					.calls = sum->semaphores);

		if (err)
			return err;
	}
	return recording_put(
		futexes->recording, futex_total, .futex = futex->id, .ops = sum->ops, .calls = sum->calls,
		.slept = sum->slept, .wait_ns = sum->wait_ns, .max_ns = sum->max_ns, .timed_out = sum->timed_out,
		.timed_out_ns = sum->timed_out_ns, .again = sum->again, .interrupted = sum->interrupted,
		.failed = sum->failed, .timed = sum->timed, .value_2 = sum->value_2, .wakes = sum->wakes,
		.wakes_empty = sum->wakes_empty, .tasks_woken = sum->tasks_woken, .latency_ns = sum->latency_ns,
		.max_latency_ns = sum->max_latency_ns, .waiters = bits(sum->waiter_set, sum->waiter_set),
		.wakers = bits(sum->waker_set, sum->waker_set), .both = bits(sum->waiter_set, sum->waker_set),
		.owner_samples = futex->owner_samples, .owners = futex->owners, .threads = futex->threads,
		.open_waits = futex->open_waits, .oldest_ns = futex->oldest_ns, .open_ns = futex->open_ns,
		.histogram = {waits.bytes, waits.size}, .latency_histogram = {latencies.bytes, latencies.size});
}

static int forgotten(void *data, __s64 id)
{
	struct futexes *futexes = data;

	futex_holders_forget(&futexes->holders, id);
	return recording_forgot_futex(futexes->recording, id);
}

/* Futexes of processes that ended since the last flush: nothing more will come of them, and others need their places. */
static int make_room(struct futexes *futexes)
{
	struct futexes_known *known = &futexes->known;
	struct futex *futex, *next;
	int err = 0;

	if (!futexes_scarce(known))
		return 0;
	HASH_ITER (by_key, known->by_key, futex, next) {
		if (err || futex->same_as || futex->stored == futex_retired_calls(futex) || !futex_is_left(futex))
			continue;
		futex->first_row = 0;
		err = store_total(futexes, futex);
	}
	return err ?: futexes_make_room(known, forgotten, futexes);
}

int futexes_drain(struct futexes *futexes)
{
	struct naming_pace pace = {};
	__u64 waits = 0, wakes = 0, lost = 0;
	int err = 0;

	for (__u32 cpu = 0; !err && cpu < futexes->cpus; cpu++) {
		struct ring ring = ring_of(futexes, cpu);
		struct futex_event event;
		struct ring_pass pass;

		ring_begin(&pass, &ring, futexes->read[cpu], &futexes->losses);
		while (!err && ring_next(&pass, &event, &futexes->losses)) {
			if (!of_goroutine(&event))
				*(event.flags & FUTEX_EVENT_WAKE ? &wakes : &waits) += 1;
			err = store_event(futexes, cpu, &event);
		}
		futexes->read[cpu] = pass.position;
	}
	if (futexes->stacks.naming)
		naming_queue_pace(futexes->stacks.naming, &pace);
	/* Of what was given at the last look. */
	for (__u32 cpu = 0; cpu < futexes->cpus && futexes->sampling.last_ns; cpu++) {
		const __u32 got = futex_sampling_waits(&futexes->sampling, cpu);
		struct futex_state *state = state_of(futexes, cpu);
		const __u32 left = __atomic_load_n(&state->wait_tokens, __ATOMIC_RELAXED);

		__atomic_store_n(&state->few_level, futex_sampling_level(state->few_level, got, left),
				 __ATOMIC_RELAXED);
	}
	futex_sampling_read(&futexes->sampling, futexes->cpus, now_ns(), waits, wakes, &pace);
	for (__u32 cpu = 0; cpu < futexes->cpus; cpu++) {
		struct futex_state *state = state_of(futexes, cpu);

		lost += __atomic_load_n(&state->counters[FUTEX_COUNT_NO_ROW], __ATOMIC_RELAXED);
		__atomic_store_n(&state->wait_tokens, futex_sampling_waits(&futexes->sampling, cpu), __ATOMIC_RELAXED);
		__atomic_store_n(&state->wake_tokens, futex_sampling_wakes(&futexes->sampling, cpu), __ATOMIC_RELAXED);
		if (futexes->goroutine_slots)
			__atomic_store_n(&state->go_tokens, FUTEX_GO_TOKENS, __ATOMIC_RELAXED);
	}
	err = err ?: store_names(futexes);
	if (futex_rows_hurry(&futexes->rows, lost, now_ns()))
		err = err ?: make_room(futexes);
	return err ?: futex_holders_look(&futexes->holders, futexes->recording, now_ns());
}

void futexes_meet_waiting(struct futexes *futexes, const struct probes *probes, const struct options *options,
			  __u64 begin_ns)
{
	futexes->met = futex_meet_waiting(&futexes->slots, probes, options, begin_ns);
}

/* Who waits for whom, while it lasts: of a deadlock nothing else will ever be seen. */
static int store_owned_wait(struct futexes *futexes, const struct futex *futex, const struct futex_slot *slot,
			    const struct owned *owned, __u64 now_ns)
{
	char comm[32] = "", owner_comm[32] = "", owner_in[64] = "";
	char state[2] = {task_state(owned->owner)};

	futexes->owned_waits++;
	proc_comm(slot->tid, comm, sizeof(comm));
	proc_comm(owned->owner, owner_comm, sizeof(owner_comm));
	proc_line(owned->owner, "wchan", owner_in, sizeof(owner_in));
	return recording_put(futexes->recording, futex_owned_wait, .futex = futex->id, .tid = slot->tid,
			     .tgid = slot->tgid, .comm = comm, .age_ns = now_ns - slot->begin_ns,
			     .timed = !!(slot->flags & FUTEX_TIMED), .owner = owned->owner,
			     .owned_ns = now_ns - owned->since_ns, .owner_comm = owner_comm, .owner_state = state,
			     .owner_in = strcmp(owner_in, "0") ? owner_in : "");
}

/* Of a futex that has no sample, as nobody who waits there has left: where the thread waits. */
static int store_waiting_sample(struct futexes *futexes, const struct futex *futex, const struct futex_slot *slot)
{
	struct naming_sample *sample;
	__s64 task;

	if (!futexes->stacks.naming || !futexes->waiting_samples)
		return 0;
	sample = naming_queue_place(futexes->stacks.naming);
	if (!sample || !futex_waiting_stack(slot->tgid, slot->tid, slot->address, &sample->stack))
		return 0;
	futexes->waiting_samples--;
	task = task_id(futexes, slot->tid, slot->tgid, "");
	if (task < 0)
		return task;
	sample->frames[0] = sample->stack.pc;
	sample->count = 1;
	sample->wake = false;
	sample->futex = futex->id;
	sample->task = task;
	/* It says where, and not how long: the wait's length comes with its end, or with the wait in progress. */
	sample->waits = 1;
	sample->wait_ns = 1;
	naming_queue_unwind(futexes->stacks.naming);
	return 0;
}

/*
 * A wait that lasts may never end, and no sample of it come: its owner is looked for while it waits; once, if it
 * has none, as of the workers of an idle pool, else each time, as it may be another's by now.
 */
static int look_at_long_wait(struct futexes *futexes, struct futex *futex, __u32 index, __u64 begin_ns, __u64 now_ns)
{
	const struct futex_slot *live = futexes->slots.slots + index, slot = *live;
	struct futex_words words = {.word = slot.word, .owner = slot.owner};
	struct futex_event event = {.tid = slot.tid,
				    .tgid = slot.tgid,
				    .op = slot.op,
				    .value = slot.value,
				    .address = slot.address,
				    .flags = slot.flags & FUTEX_SHARED ? FUTEX_EVENT_SHARED : 0};
	bool first = futexes->looked_at[index] != begin_ns;
	struct owned *owned = &futexes->owned[index];
	__u32 owner;
	int err = 0;

	/* Another wait by now: its turn comes when it lasts. */
	if (slot.begin_ns != begin_ns || (!first && !owned->owner))
		return 0;
	if (!first && futexes->owned_waits == OWNED_WAITS) {
		futexes->owned_untold++;
		return 0;
	}
	futexes->looked_at[index] = begin_ns;
	futex_words(slot.tgid, slot.address, &words);
	event.word = words.word;
	event.owner = words.owner;
	owner = owner_of(&event);
	if (first || owner != owned->owner)
		*owned = (struct owned){owner, now_ns};
	if (first)
		err = add_owner(futexes, futex, &event, owner);
	if (!err && first && futex->owner_samples == 1)
		err = store_waiting_sample(futexes, futex, &slot);
	/* It has the lock meanwhile, and is the owner itself; at the end of a recording no program sees it leave. */
	if (err || !owner || !futex_still_waits(slot.tgid, slot.tid, slot.address))
		return err;
	if (futexes->owned_waits == OWNED_WAITS) {
		futexes->owned_untold++;
		return 0;
	}
	return store_owned_wait(futexes, futex, &slot, owned, now_ns);
}

static void add_open(struct futex *futex, __u32 op, __u64 age)
{
	futex->open_waits++;
	futex->open_ops |= FUTEX_BIT(op & 31);
	futex->open_ns += age;
	futex->oldest_ns = age > futex->oldest_ns ? age : futex->oldest_ns;
}

/* Waits of goroutines that still last; those of processes that are gone are forgotten. */
static void look_at_goroutines(struct futexes *futexes, __u64 now_ns)
{
	struct go_slot *slots = futexes->goroutines.data;

	for (__u32 i = 0; i < futexes->goroutine_slots; i++) {
		__u64 key = __atomic_load_n(&slots[i].key, __ATOMIC_ACQUIRE);
		__u64 begin_ns = __atomic_load_n(&slots[i].begin_ns, __ATOMIC_RELAXED);
		__u64 age = now_ns > begin_ns ? now_ns - begin_ns : 0;

		if (!key || !begin_ns || age < STALE_NS / 1000)
			continue;
		if (age > STALE_NS && task_gone(slots[i].tgid))
			__atomic_compare_exchange_n(&slots[i].key, &key, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		else
			add_open(futexes_meet(&futexes->known, slots[i].tgid, slots[i].address, false), slots[i].op,
				 age);
	}
}

/* Calls that still last: those of threads that are gone are forgotten, waits belong to their futex. */
static int look_at_slots(struct futexes *futexes, __u64 now_ns)
{
	struct futex_slot *slots = futexes->slots.slots;
	int err = futexes->owned_waits ? recording_clear(futexes->recording, TABLE_FUTEX_OWNED_WAIT) : 0;

	futexes->owned_waits = 0;
	futexes->owned_untold = 0;
	futexes->waiting_samples = WAITING_SAMPLES;
	for (__u32 i = 0; !err && i <= futexes->slots.mask; i++) {
		struct futex_slot *slot = &slots[i];
		__u32 tid = __atomic_load_n(&slot->tid, __ATOMIC_ACQUIRE), home = tid & futexes->slots.mask;
		__u64 begin_ns = __atomic_load_n(&slot->begin_ns, __ATOMIC_RELAXED);
		__u64 age = now_ns > begin_ns ? now_ns - begin_ns : 0;
		struct futex *futex;

		if (!tid || age < STALE_NS / 1000)
			continue;
		if (age > STALE_NS && task_gone(tid)) {
			if (home != i)
				__atomic_fetch_sub(&slots[home].displaced, 1, __ATOMIC_RELAXED);
			__atomic_store_n(&slot->tid, 0, __ATOMIC_RELEASE);
			continue;
		}
		if (!(FUTEX_WAIT_OPS >> (slot->op & 31) & 1) || slot->flags & FUTEX_PAUSED || !slot->address ||
		    !begin_ns)
			continue;
		futex = futexes_meet(&futexes->known, slot->tgid, slot->address, slot->flags & FUTEX_SHARED);
		add_open(futex, slot->op, age);
		if (age > STALE_NS)
			err = look_at_long_wait(futexes, futex, i, begin_ns, now_ns);
	}
	return err;
}

static const struct {
	const char *name;
	const char *severity;
	const char *meaning;
} counters[] = {
	[FUTEX_COUNT_COMPAT] = {"futex_compat", "info", "futex calls of 32-bit tasks"},
	[FUTEX_COUNT_RESTARTED] = {"futex_restarted", "info", "futex waits that went on after a signal, as new waits"},
	[FUTEX_COUNT_NO_SLOT] = {"futex_no_slot", "loss", "futex calls not recorded: too many were in progress"},
	[FUTEX_COUNT_ORPHANED] = {"futex_orphaned", "loss", "futex calls whose end was not seen"},
	[FUTEX_COUNT_NO_ROW] = {"futex_no_row", "loss", "futex waits and wakes without their futex's name"},
	[FUTEX_COUNT_NO_BUCKET] = {"futex_no_bucket", "loss", "waits for a hash bucket's lock without their futex"},
	[FUTEX_COUNT_BUCKETS] = {"futex_bucket_waits", "info",
				 "lock waits inside futex calls, where buckets' locks lie"},
};

static int store_losses(struct futexes *futexes, __u64 calls)
{
	__u64 bytes = futexes->slot_array.bytes + (__u64)(futexes->slots.mask + 1) * FUTEX_OWNED_BYTES +
		      futexes->table.bytes + futexes->buckets.rows.bytes + futexes->states.bytes +
		      futexes->events.bytes + futexes->user_stacks.copies.bytes +
		      futexes->known.most * FUTEX_KNOWN_BYTES +
		      (__u64)futexes->cpus * futexes->rows.per_cpu * sizeof(*futexes->rows.seen);
	const struct {
		const char *name;
		__u64 count;
		const char *severity;
		const char *meaning;
	} losses[] = {
		{"futex_calls", calls, "info", "futex and sched_yield calls that were followed to their end"},
		{"futex_met", futexes->met.count, "info",
		 "futex waits that had begun before the recording, counted from its begin"},
		{"futex_not_looked", futexes->met.not_looked, "loss",
		 "threads not looked at: did their futex wait begin before the recording?"},
		{"futex_owned_untold", futexes->owned_untold, "info",
		 "waits in progress listed without their lock's owner: there were too many"},
		{"futex_samples_lost", futexes->losses.overwritten + futexes->losses.torn, "loss",
		 "samples of futex waits and wakes that were overwritten, or written, while they were read"},
	};
	int err = recording_put(futexes->recording, cost, .name = "futex_bytes", .value = bytes, .unit = "bytes");

	for (size_t i = 0; !err && i < sizeof(losses) / sizeof(losses[0]); i++)
		err = recording_put(futexes->recording, loss, .name = losses[i].name, .count = losses[i].count,
				    .meaning = losses[i].meaning, .severity = losses[i].severity);
	for (size_t i = 0; !err && i < sizeof(counters) / sizeof(counters[0]); i++) {
		__u64 sum = 0;

		for (__u32 cpu = 0; cpu < futexes->cpus; cpu++)
			sum += state_of(futexes, cpu)->counters[i];
		err = recording_put(futexes->recording, loss, .name = counters[i].name, .count = sum,
				    .meaning = counters[i].meaning, .severity = counters[i].severity);
	}
	return err;
}

static bool changed(const struct futex *futex)
{
	return !futex->same_as && (futex->stored != futex->calls || futex->open_waits || futex->open_stored);
}

int futexes_flush(struct futexes *futexes, __u64 now_ns)
{
	struct futexes_known *known = &futexes->known;
	__u64 calls = futex_rows_read(&futexes->rows);
	int err = look_at_slots(futexes, now_ns);

	look_at_goroutines(futexes, now_ns);
	struct futex *futex, *next;

	err = err ?: futex_bucket_waits_store(&futexes->buckets, futexes->recording, futexes->locks, known);
	ask_again(futexes);
	err = err ?: store_names(futexes);
	if (!err && changed(&known->nameless))
		err = store_total(futexes, &known->nameless);
	HASH_ITER (by_key, known->by_key, futex, next)
		if (!err && changed(futex))
			err = store_total(futexes, futex);
	err = err ?: store_losses(futexes, calls);
	if (err)
		return err;
	futex_rows_age(&futexes->rows);
	return futexes_forget(known, forgotten, futexes);
}
