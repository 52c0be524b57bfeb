// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "waits/locks.h"
#include "recording/recording_fold.h"
#include "recording/recording_rows.h"

/* A name may become better with the next stack; after that it is what it is. */
#define NAMING_TRIES 3

/* Flushes after which a lock without rows may be forgotten. */
#define FORGET_FLUSHES 4

/* Locks that waited again after a pause, looked at in one flush: up to five questions to the kernel each; others have
 * their turn in the next flushes in which they are waited for. */
#define LOOKED_AT_MOST 64
/* And those whose task has ended: what they wait for may be what it left. */
#define ENDED_MOST (LOOKED_AT_MOST / 2)
/* A pause: flushes without a wait. */
#define PAUSE_FLUSHES 2

/* Types of objects that hold locks, each once; of those beyond it nothing is kept. */
#define TYPES_MOST 256

struct locks {
	char types[TYPES_MOST][64];
	__u32 type_count;
	struct recording *recording;
	struct lock_names *names;
	void *by_address; /* tsearch */
	struct known_lock **known;
	__u32 known_count;
	__u64 flushes;
	struct lock_total **totals;
	__u32 total_count;
	__u32 limit;
	__u32 next_id;
	__u64 without_place;
	__u32 looked_at; /* since the last flush, whether they are others by now */
	struct reused_counts reused;
	struct lock_total other[KIND_COUNT];
};

static int by_address(const void *a, const void *b)
{
	__u64 x = ((const struct known_lock *)a)->address, y = ((const struct known_lock *)b)->address;

	return x < y ? -1 : x > y;
}

int locks_open(struct locks **out, struct recording *recording, struct lock_names *names, __u32 limit)
{
	struct locks *locks = calloc(1, sizeof(*locks));
	int err;

	if (!locks)
		return -ENOMEM;
	locks->recording = recording;
	locks->names = names;
	locks->limit = limit;
	locks->next_id = OTHER_LOCK + 1;
	locks->totals = calloc(limit, sizeof(*locks->totals));
	locks->known = calloc(limit, sizeof(struct known_lock *));
	for (__u32 kind = 0; kind < KIND_COUNT; kind++)
		locks->other[kind] = (struct lock_total){.lock = OTHER_LOCK, .kind = kind};
	err = locks->totals && locks->known
		      ? recording_put(recording, lock, .id = OTHER_LOCK, .address = 0, .name = "(locks without a row)",
				      .instance = "", .source = name_source_names[NAME_UNKNOWN])
		      : -ENOMEM;
	if (err) {
		locks_close(locks);
		return err;
	}
	*out = locks;
	return 0;
}

static void forget_nothing(void *node)
{
}

void locks_close(struct locks *locks)
{
	if (!locks)
		return;
	tdestroy(locks->by_address, forget_nothing);
	for (__u32 i = 0; i < locks->known_count; i++)
		free(locks->known[i]);
	for (__u32 i = 0; i < locks->total_count; i++)
		free(locks->totals[i]);
	free(locks->totals);
	free(locks->known);
	free(locks);
}

struct known_lock *locks_find(struct locks *locks, __u64 address)
{
	struct known_lock key = {.address = address};
	struct known_lock **found = tfind(&key, &locks->by_address, by_address);

	return found ? *found : NULL;
}

static const char *keep_type(struct locks *locks, const char *type)
{
	if (!*type)
		return "";
	for (__u32 i = 0; i < locks->type_count; i++)
		if (!strcmp(locks->types[i], type))
			return locks->types[i];
	if (locks->type_count == TYPES_MOST)
		return "";
	snprintf(locks->types[locks->type_count], sizeof(locks->types[0]), "%s", type);
	return locks->types[locks->type_count++];
}

static __u32 task_of(const char *instance)
{
	unsigned int id;

	return sscanf(instance, "pid %u", &id) == 1 || sscanf(instance, "tid %u", &id) == 1 ? id : 0;
}

static int name_lock(struct locks *locks, struct known_lock *lock, const struct lock_hint *hint)
{
	struct lock_name name;

	lock->tries++;
	lock_names_resolve(locks->names, hint, &name);
	if (lock->tries > 1 && name.source == lock->source && name.unsure && name.called <= lock->called)
		return 0;
	lock->source = name.source;
	lock->unsure = name.unsure;
	lock->called = name.called;
	lock->type = keep_type(locks, name.type);
	lock->type_offset = lock->address - name.object;
	lock->identity.cache = name.cache;
	lock->identity.orphan = name.orphan;
	snprintf(lock->identity.instance, sizeof(lock->identity.instance), "%s", name.instance);
	lock->task = task_of(name.instance);
	return recording_put(locks->recording, lock, .id = lock->id, .address = lock->address, .name = name.name,
			     .instance = name.instance, .source = name_source_names[name.source]);
}

static bool has_lost_its_task(const struct locks *locks, const struct known_lock *lock)
{
	if (locks->looked_at >= ENDED_MOST)
		return false;
	return lock->identity.orphan || (lock->task && task_ended(lock->task));
}

bool locks_reused(struct locks *locks, struct known_lock *lock, bool was_idle, int *err)
{
	bool paused;

	*err = 0;
	if (lock->gone)
		return true;
	if (lock->source != NAME_OWNER && lock->source != NAME_SLAB)
		return false;
	/* One lock has several rows. */
	if (lock->asked == locks->flushes + 1 || !(was_idle || lock->doubted || has_lost_its_task(locks, lock)))
		return false;
	if (locks->looked_at == LOOKED_AT_MOST) {
		locks->reused.not_looked_at += !lock->doubted;
		lock->doubted = true;
		return false;
	}
	paused = was_idle || lock->doubted;
	lock->doubted = false;
	lock->asked = locks->flushes + 1;
	locks->looked_at++;
	if (!lock_names_reused(locks->names, lock->address, &lock->identity, lock->type, lock->type_offset, paused))
		return false;
	locks->reused.found++;
	lock->gone = true;
	tdelete(lock, &locks->by_address, by_address);
	*err = recording_forgot_lock(locks->recording, lock->id);
	return true;
}

void locks_used(struct locks *locks, struct lock_total *total)
{
	if (total->of)
		total->of->used = locks->flushes;
}

const struct reused_counts *locks_reused_counts(const struct locks *locks)
{
	return &locks->reused;
}

struct known_lock *locks_meet(struct locks *locks, const struct lock_hint *hint, int *err)
{
	struct known_lock *lock = locks_find(locks, hint->address);

	*err = 0;
	if (lock && locks_reused(locks, lock, locks->flushes - lock->used >= PAUSE_FLUSHES, err))
		lock = NULL;
	if (*err)
		return NULL;
	if (lock) {
		lock->used = locks->flushes;
		if (lock->unsure && hint->frame_count > 0 && lock->tries < NAMING_TRIES)
			*err = name_lock(locks, lock, hint);
		return *err ? NULL : lock;
	}
	if (locks->known_count >= locks->limit) {
		locks->without_place++;
		return NULL;
	}
	lock = calloc(1, sizeof(*lock));
	if (!lock) {
		*err = -ENOMEM;
		return NULL;
	}
	lock->address = hint->address;
	lock->type = "";
	lock->id = locks->next_id++;
	if (!tsearch(lock, &locks->by_address, by_address)) {
		free(lock);
		*err = -ENOMEM;
		return NULL;
	}
	lock->used = locks->flushes;
	locks->known[locks->known_count++] = lock;
	*err = name_lock(locks, lock, hint);
	return *err ? NULL : lock;
}

struct lock_total *locks_total(struct locks *locks, struct known_lock *lock, __u32 kind)
{
	struct lock_total *total;

	for (total = lock->totals; total; total = total->next)
		if (total->kind == kind)
			return total;
	total = locks->total_count < locks->limit ? calloc(1, sizeof(*total)) : NULL;
	if (!total) {
		locks->without_place++;
		return NULL;
	}
	total->lock = lock->id;
	total->kind = kind;
	total->of = lock;
	total->next = lock->totals;
	lock->totals = total;
	locks->totals[locks->total_count++] = total;
	return total;
}

struct lock_total *locks_other(struct locks *locks, __u32 kind)
{
	return &locks->other[kind & (KIND_COUNT - 1)];
}

void locks_bind(struct locks *locks, struct lock_total *total)
{
	if (!total->of)
		return;
	total->of->rows++;
	total->of->used = locks->flushes;
}

void locks_release(struct lock_total *total)
{
	if (total->of && total->of->rows)
		total->of->rows--;
}

bool locks_scarce(const struct locks *locks)
{
	__u32 most = locks->known_count > locks->total_count ? locks->known_count : locks->total_count;

	return (__u64)most * 4 > (__u64)locks->limit * 3;
}

static bool is_forgotten(const struct locks *locks, const struct known_lock *lock)
{
	return !lock->rows && (lock->gone || locks->flushes - lock->used > FORGET_FLUSHES);
}

int locks_forget(struct locks *locks)
{
	__u32 kept = 0;
	int err = 0;

	locks->flushes++;
	locks->looked_at = 0;
	if (!locks_scarce(locks))
		return 0;
	for (__u32 i = 0; i < locks->total_count; i++) {
		if (is_forgotten(locks, locks->totals[i]->of))
			free(locks->totals[i]);
		else
			locks->totals[kept++] = locks->totals[i];
	}
	locks->total_count = kept;
	kept = 0;
	for (__u32 i = 0; i < locks->known_count; i++) {
		struct known_lock *lock = locks->known[i];

		if (is_forgotten(locks, lock)) {
			if (!lock->gone) {
				err = err ?: recording_forgot_lock(locks->recording, lock->id);
				tdelete(lock, &locks->by_address, by_address);
			}
			free(lock);
		} else {
			locks->known[kept++] = lock;
		}
	}
	locks->known_count = kept;
	return err;
}

__u64 locks_without_place(const struct locks *locks)
{
	return locks->without_place;
}

int locks_changed(struct locks *locks, int (*visit)(const struct lock_total *total, void *data), void *data)
{
	int err = 0;

	for (__u32 i = 0; !err && i < locks->total_count + KIND_COUNT; i++) {
		struct lock_total *total = i < KIND_COUNT ? &locks->other[i] : locks->totals[i - KIND_COUNT];

		if (total->changed)
			err = visit(total, data);
		total->changed = false;
	}
	return err;
}
