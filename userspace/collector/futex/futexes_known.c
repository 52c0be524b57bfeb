// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "futex/futexes_known.h"

#define NAMELESS_ID 1
/* Flushes without a use after which a futex may be forgotten. */
#define FORGET_FLUSHES 4

void futexes_known_open(struct futexes_known *known, __u32 most)
{
	*known = (struct futexes_known){
		.most = most, .next_id = NAMELESS_ID + 1, .nameless = {.id = NAMELESS_ID, .uses = 1}};
}

static void free_futex(struct futex *futex)
{
	free(futex->retired);
	free(futex);
}

static void forget(struct futexes_known *known, struct futex *futex)
{
	if (futex->same_as)
		futex->same_as->uses--;
	if (futex->placed)
		HASH_DELETE(by_place, known->by_place, futex);
	HASH_DELETE(by_key, known->by_key, futex);
	free_futex(futex);
}

void futexes_known_close(struct futexes_known *known)
{
	struct futex *futex, *next;

	HASH_CLEAR(by_place, known->by_place);
	HASH_ITER (by_key, known->by_key, futex, next) {
		HASH_DELETE(by_key, known->by_key, futex);
		free_futex(futex);
	}
	free(known->nameless.retired);
}

bool futexes_scarce(const struct futexes_known *known)
{
	return (__u64)HASH_CNT(by_key, known->by_key) * 4 > (__u64)known->most * 3;
}

/* One that lies in the same place of a file: a futex that processes share. */
static void join_place(struct futexes_known *known, struct futex *futex)
{
	futex_place(futex->key.tgid, futex->key.address, &futex->place);
	if (!futex->place.inode)
		return;
	HASH_FIND(by_place, known->by_place, &futex->place, sizeof(futex->place), futex->same_as);
	if (futex->same_as) {
		futex->same_as->uses++;
	} else {
		HASH_ADD(by_place, known->by_place, place, sizeof(futex->place), futex);
		futex->placed = futex->by_place.tbl;
	}
}

static struct futex *add(struct futexes_known *known, const struct futex_key *key, bool shared)
{
	struct futex *futex;

	if (HASH_CNT(by_key, known->by_key) >= known->most)
		return NULL;
	futex = calloc(1, sizeof(*futex));
	if (!futex)
		return NULL;
	futex->key = *key;
	futex->shared = shared;
	HASH_ADD(by_key, known->by_key, key, sizeof(futex->key), futex);
	if (!futex->by_key.tbl) {
		free(futex);
		return NULL;
	}
	if (shared)
		join_place(known, futex);
	if (!futex->same_as)
		futex->id = known->next_id++;
	if (!known->unnamed)
		known->unnamed = futex;
	return futex;
}

struct futex *futexes_meet(struct futexes_known *known, __u32 tgid, __u64 address, bool shared)
{
	struct futex_key key = {.tgid = tgid, .address = address};
	struct futex *futex;

	HASH_FIND(by_key, known->by_key, &key, sizeof(key), futex);
	if (!futex)
		futex = add(known, &key, shared);
	if (!futex)
		return &known->nameless;
	futex->used = known->flushes;
	return futex->same_as ?: futex;
}

__u64 futex_retired_calls(const struct futex *futex)
{
	return futex->retired ? futex->retired->calls + futex->retired->wakes : 0;
}

static bool is_in_use(const struct futex *futex)
{
	return futex->uses || futex->open_waits || futex->open_stored;
}

bool futex_is_left(const struct futex *futex)
{
	return !is_in_use(futex) && task_ended(futex->key.tgid);
}

static bool is_forgotten(const struct futexes_known *known, const struct futex *futex)
{
	if (is_in_use(futex) || futex->stored != futex_retired_calls(futex))
		return false;
	return known->flushes - futex->used > FORGET_FLUSHES || task_gone(futex->key.tgid);
}

int futexes_forget(struct futexes_known *known, int (*forgotten)(void *data, __s64 id), void *data)
{
	known->flushes++;
	return futexes_make_room(known, forgotten, data);
}

int futexes_make_room(struct futexes_known *known, int (*forgotten)(void *data, __s64 id), void *data)
{
	struct futex *futex, *next;
	int err = 0;

	if (!futexes_scarce(known))
		return 0;
	HASH_ITER (by_key, known->by_key, futex, next) {
		if (!is_forgotten(known, futex))
			continue;
		if (!err && !futex->same_as)
			err = forgotten(data, futex->id);
		forget(known, futex);
	}
	return err;
}

void futex_row_add(struct futex_row *sum, const struct futex_row *row)
{
	sum->flags |= row->flags;
	sum->ops |= row->ops;
	sum->calls += row->calls;
	sum->slept += row->slept;
	sum->wait_ns += row->wait_ns;
	sum->max_ns = row->max_ns > sum->max_ns ? row->max_ns : sum->max_ns;
	sum->timed_out += row->timed_out;
	sum->timed_out_ns += row->timed_out_ns;
	sum->again += row->again;
	sum->interrupted += row->interrupted;
	sum->failed += row->failed;
	sum->timed += row->timed;
	sum->value_2 += row->value_2;
	sum->wakes += row->wakes;
	sum->wakes_empty += row->wakes_empty;
	sum->tasks_woken += row->tasks_woken;
	sum->semaphores += row->semaphores;
	sum->latency_ns += row->latency_ns;
	sum->max_latency_ns = row->max_latency_ns > sum->max_latency_ns ? row->max_latency_ns : sum->max_latency_ns;
	for (int i = 0; i < 2; i++) {
		sum->waiter_set[i] |= row->waiter_set[i];
		sum->waker_set[i] |= row->waker_set[i];
	}
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		sum->histogram[i] += row->histogram[i];
		sum->latency_histogram[i] += row->latency_histogram[i];
	}
}

bool futex_retire(struct futex *futex, const struct futex_row *row)
{
	if (!futex->retired)
		futex->retired = calloc(1, sizeof(*futex->retired));
	if (!futex->retired)
		return false;
	futex_row_add(futex->retired, row);
	return true;
}
