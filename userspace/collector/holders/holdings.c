// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "holders/holdings.h"

/* Releases and ended waits that are remembered of a lock; doubled where a wait lasted longer. */
#define HISTORY_FIRST 64
#define HISTORY_MOST  8192
/* Of all locks together. */
#define HISTORY_BYTES (32u << 20)
#define MOST_HOLDERS  16384
#define LOCK_KINDS    4
/* Key of the figures that are a lock's and a holder's, whatever the kind of wait. */
#define ANY_KIND KIND_COUNT

struct release {
	__u64 time_ns;
	__s64 stack;
	__u32 holder;
};

struct ended {
	__u64 begin_ns;
	__u64 end_ns;
};

/* A ring: `count` ever put in, the last `size` of them there. */
struct history {
	union {
		void *entries;
		struct release *releases;
		struct ended *ended;
	};
	__u64 count;
	__u32 size;
};

struct holding_lock {
	__u64 address; /* 0: free */
	__u64 releases;
	__u64 retakes;
	__u32 last_holder;
	bool got_after_wait; /* since the last release */
	struct history released;
	struct history ended;
	struct fairness kinds[LOCK_KINDS];
	__u32 kind_count;
	bool changed;
};

struct cell {
	struct caused caused; /* lock 0: free */
	__s64 stack_now;      /* of the last sampled release */
	bool changed;
};

struct holdings {
	struct holding_lock *locks;
	size_t lock_slots;
	size_t lock_count;
	struct cell *cells;
	size_t cell_slots;
	size_t cell_count;
	struct holder *holders;
	__u32 *holder_slots; /* index + 1 by hash */
	__u32 holder_count;
	size_t history_bytes;
	struct holdings_losses losses;
};

#define HOLDER_SLOTS (MOST_HOLDERS * 2)

static size_t slots_for(size_t entries)
{
	size_t slots = 16;

	while (slots < entries * 2)
		slots *= 2;
	return slots;
}

static __u64 mix(__u64 hash, __u64 value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ull ^ value >> 32;
}

int holdings_open(struct holdings **out, size_t locks, size_t cells)
{
	struct holdings *holdings = calloc(1, sizeof(*holdings));

	if (!holdings)
		return -ENOMEM;
	holdings->lock_slots = slots_for(locks);
	holdings->cell_slots = slots_for(cells);
	holdings->locks = calloc(holdings->lock_slots, sizeof(*holdings->locks));
	holdings->cells = calloc(holdings->cell_slots, sizeof(*holdings->cells));
	holdings->holders = calloc(MOST_HOLDERS, sizeof(*holdings->holders));
	holdings->holder_slots = calloc(HOLDER_SLOTS, sizeof(*holdings->holder_slots));
	if (!holdings->locks || !holdings->cells || !holdings->holders || !holdings->holder_slots) {
		holdings_close(holdings);
		return -ENOMEM;
	}
	holdings->holder_count = HOLDER_READERS + 1;
	strcpy(holdings->holders[HOLDER_READERS].comm, "[readers]");
	*out = holdings;
	return 0;
}

void holdings_close(struct holdings *holdings)
{
	if (!holdings)
		return;
	for (size_t i = 0; holdings->locks && i < holdings->lock_slots; i++) {
		free(holdings->locks[i].released.entries);
		free(holdings->locks[i].ended.entries);
	}
	free(holdings->locks);
	free(holdings->cells);
	free(holdings->holders);
	free(holdings->holder_slots);
	free(holdings);
}

static bool make_room(struct holdings *holdings, struct history *history, size_t entry)
{
	__u32 size = history->size ? history->size * 2 : HISTORY_FIRST;
	size_t bytes = (size_t)size * entry;
	char *grown;

	if (size > HISTORY_MOST || holdings->history_bytes + bytes > HISTORY_BYTES)
		return false;
	grown = calloc(size, entry);
	if (!grown)
		return false;
	/* Entries keep their place modulo the size. */
	for (__u32 i = 0; i < history->size && i < history->count; i++) {
		__u64 position = history->count - 1 - i;

		memcpy(grown + position % size * entry, (char *)history->entries + position % history->size * entry,
		       entry);
	}
	holdings->history_bytes += bytes - history->size * entry;
	free(history->entries);
	history->entries = grown;
	history->size = size;
	return true;
}

static __u64 oldest(const struct history *history)
{
	return history->count > history->size ? history->count - history->size : 0;
}

static struct holding_lock *lock_of(struct holdings *holdings, __u64 address)
{
	size_t slot = mix(0, address) & (holdings->lock_slots - 1);
	struct holding_lock *lock;

	for (; holdings->locks[slot].address; slot = (slot + 1) & (holdings->lock_slots - 1))
		if (holdings->locks[slot].address == address)
			return &holdings->locks[slot];
	lock = &holdings->locks[slot];
	if (holdings->lock_count >= holdings->lock_slots / 2 ||
	    !make_room(holdings, &lock->released, sizeof(struct release)) ||
	    !make_room(holdings, &lock->ended, sizeof(struct ended))) {
		holdings->losses.without_place++;
		return NULL;
	}
	holdings->lock_count++;
	lock->address = address;
	return lock;
}

static struct cell *cell_of(struct holdings *holdings, __u64 lock, __u32 kind, __u32 holder, __s64 stack)
{
	size_t slot = mix(mix(mix(lock, kind), holder), stack) & (holdings->cell_slots - 1);

	for (;; slot = (slot + 1) & (holdings->cell_slots - 1)) {
		struct caused *caused = &holdings->cells[slot].caused;

		if (caused->lock == lock && caused->kind == kind && caused->holder == holder && caused->stack == stack)
			return &holdings->cells[slot];
		if (caused->lock)
			continue;
		if (holdings->cell_count >= holdings->cell_slots / 2) {
			holdings->losses.without_place++;
			return NULL;
		}
		holdings->cell_count++;
		*caused = (struct caused){.lock = lock, .kind = kind, .holder = holder, .stack = stack};
		return &holdings->cells[slot];
	}
}

/* By its owner field alone a task is known by its tid: it is the one of that tid that is known by name, if any. */
static bool is_same(const struct holder *holder, __u32 tid, __u32 tgid, const char *comm)
{
	if (holder->tid != tid)
		return false;
	return !holder->comm[0] || !comm[0] || (holder->tgid == tgid && !strncmp(holder->comm, comm, 16));
}

static __u32 holder_of(struct holdings *holdings, __u32 tid, __u32 tgid, const char *comm)
{
	struct holder *holder;
	size_t slot;

	for (slot = mix(0, tid) % HOLDER_SLOTS; holdings->holder_slots[slot]; slot = (slot + 1) % HOLDER_SLOTS) {
		holder = &holdings->holders[holdings->holder_slots[slot]];
		if (!is_same(holder, tid, tgid, comm))
			continue;
		if (!holder->comm[0]) {
			holder->tgid = tgid;
			memcpy(holder->comm, comm, strnlen(comm, 16));
		}
		return holdings->holder_slots[slot];
	}
	if (holdings->holder_count >= MOST_HOLDERS) {
		holdings->losses.without_place++;
		return HOLDER_UNKNOWN;
	}
	holder = &holdings->holders[holdings->holder_count];
	holder->tid = tid;
	holder->tgid = tgid;
	memcpy(holder->comm, comm, strnlen(comm, 16));
	holdings->holder_slots[slot] = holdings->holder_count;
	return holdings->holder_count++;
}

void holdings_release(struct holdings *holdings, const struct holding_record *holding, __s64 stack)
{
	struct holding_lock *lock = lock_of(holdings, holding->lock);
	__u32 holder = holder_of(holdings, holding->tid, holding->tgid, holding->comm);
	struct cell *cell, *sampled;

	if (!lock)
		return;
	lock->releases++;
	if (lock->last_holder == holder && holder != HOLDER_UNKNOWN && !lock->got_after_wait)
		lock->retakes++;
	lock->last_holder = holder;
	lock->got_after_wait = false;
	lock->changed = true;
	cell = cell_of(holdings, holding->lock, ANY_KIND, holder, 0);
	if (cell) {
		cell->caused.releases++;
		if (stack)
			cell->stack_now = stack;
		stack = cell->stack_now;
		sampled = stack ? cell_of(holdings, holding->lock, ANY_KIND, holder, stack) : NULL;
		if (sampled) {
			sampled->caused.releases++;
			sampled->caused.samples += holding->stack != 0;
		}
	}
	lock->released.releases[lock->released.count++ % lock->released.size] =
		(struct release){.time_ns = holding->time_ns, .holder = holder, .stack = stack};
}

static void add_to(struct cell *cell, __u64 ns, bool first)
{
	if (!cell)
		return;
	cell->changed = true;
	cell->caused.waits += first;
	cell->caused.ns += ns;
	if (ns > cell->caused.max_ns)
		cell->caused.max_ns = ns;
}

static void charge(struct holdings *holdings, const struct holding_record *holding, __u32 holder, __s64 stack, __u64 ns,
		   bool first)
{
	add_to(cell_of(holdings, holding->lock, holding->kind, holder, 0), ns, first);
	if (stack)
		add_to(cell_of(holdings, holding->lock, holding->kind, holder, stack), ns, first);
}

static struct fairness *fairness_of(struct holding_lock *lock, __u32 kind)
{
	for (__u32 i = 0; i < lock->kind_count; i++)
		if (lock->kinds[i].kind == kind)
			return &lock->kinds[i];
	if (lock->kind_count == LOCK_KINDS)
		return NULL;
	lock->kinds[lock->kind_count] = (struct fairness){.lock = lock->address, .kind = kind};
	return &lock->kinds[lock->kind_count++];
}

/* One holder at a time: only there does each release mean that somebody else had the lock. */
static bool is_exclusive(__u32 kind)
{
	return kind == KIND_SPINLOCK || kind == KIND_MUTEX || kind == KIND_MUTEX_SPIN || kind == KIND_RTMUTEX;
}

/* Waits for the lock that began before this one and got it while this one waited. */
static __u64 served_before(const struct holding_lock *lock, const struct holding_record *holding)
{
	const struct history *ended = &lock->ended;
	__u64 served = 0;

	for (__u64 i = ended->count; i > oldest(ended); i--) {
		const struct ended *wait = &ended->ended[(i - 1) % ended->size];

		if (wait->end_ns <= holding->begin_ns)
			break;
		served += wait->begin_ns <= holding->begin_ns;
	}
	return served;
}

/* First release after the wait's begin; of those that are remembered. */
static __u64 first_release(const struct history *released, __u64 begin_ns)
{
	__u64 low = oldest(released), high = released->count;

	while (low < high) {
		__u64 middle = low + (high - low) / 2;

		if (released->releases[middle % released->size].time_ns <= begin_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool charged_before(const struct history *released, __u64 first, __u64 at)
{
	__u32 holder = released->releases[at % released->size].holder;

	/* Near ones alone: who holds again and again does so in turn with few others. */
	for (__u64 i = at; i > first && at - i < 64; i--)
		if (released->releases[(i - 1) % released->size].holder == holder)
			return true;
	return false;
}

void holdings_wait(struct holdings *holdings, const struct holding_record *holding)
{
	struct holding_lock *lock = lock_of(holdings, holding->lock);
	struct fairness *fairness = lock ? fairness_of(lock, holding->kind) : NULL;
	struct history *released;
	__u64 first, from = holding->begin_ns, end = holding->time_ns, releases;

	if (!fairness || end < holding->begin_ns)
		return;
	released = &lock->released;
	lock->changed = true;
	lock->got_after_wait = true;
	first = first_release(released, holding->begin_ns);
	if (first == oldest(released) && oldest(released)) {
		holdings->losses.incomplete++;
		make_room(holdings, released, sizeof(struct release));
		make_room(holdings, &lock->ended, sizeof(struct ended));
		/* What came before is nobody's. */
		from = released->releases[first % released->size].time_ns;
		charge(holdings, holding, HOLDER_UNKNOWN, 0, from - holding->begin_ns, true);
	}
	for (__u64 i = first; i < released->count; i++) {
		const struct release *release = &released->releases[i % released->size];

		if (release->time_ns > end)
			break;
		charge(holdings, holding, release->holder, release->stack, release->time_ns - from,
		       !charged_before(released, first, i));
		from = release->time_ns;
	}
	releases = released->count - first;
	fairness->waits++;
	fairness->wait_ns += end - holding->begin_ns;
	if (releases) {
		fairness->handoffs++;
		fairness->handoff_ns += end - from;
		if (end - from > fairness->max_handoff_ns)
			fairness->max_handoff_ns = end - from;
	} else {
		__u32 holder = holding->flags & HOLDING_READERS ? HOLDER_READERS
			       : holding->owner_tid             ? holder_of(holdings, holding->owner_tid, 0, "")
								: HOLDER_UNKNOWN;

		charge(holdings, holding, holder, 0, end - holding->begin_ns, true);
	}
	if (is_exclusive(holding->kind) && releases > 1) {
		/* The first release is of the hold that was there when the wait began. */
		__u64 served = served_before(lock, holding), others = releases - 1;
		__u64 bypasses = others > served ? others - served : 0;

		fairness->overtaken += bypasses > 0;
		fairness->bypasses += bypasses;
		if (bypasses > fairness->max_bypasses)
			fairness->max_bypasses = bypasses;
	}
	lock->ended.ended[lock->ended.count++ % lock->ended.size] =
		(struct ended){.begin_ns = holding->begin_ns, .end_ns = end};
}

struct holder *holdings_holder(struct holdings *holdings, __u32 holder)
{
	return &holdings->holders[holder];
}

const struct holdings_losses *holdings_losses(const struct holdings *holdings)
{
	return &holdings->losses;
}

size_t holdings_bytes(const struct holdings *holdings)
{
	return holdings->history_bytes + holdings->lock_slots * sizeof(*holdings->locks) +
	       holdings->cell_slots * sizeof(*holdings->cells) + MOST_HOLDERS * sizeof(*holdings->holders) +
	       HOLDER_SLOTS * sizeof(*holdings->holder_slots);
}

static int visit_cell(struct holdings *holdings, struct cell *cell,
		      int (*visit)(const struct caused *caused, void *data), void *data)
{
	struct caused caused = cell->caused;
	const struct cell *any = cell_of(holdings, caused.lock, ANY_KIND, caused.holder, caused.stack);

	if (any) {
		caused.releases = any->caused.releases;
		caused.samples = any->caused.samples;
	}
	cell->changed = false;
	return visit(&caused, data);
}

int holdings_changed(struct holdings *holdings, int (*visit_caused)(const struct caused *caused, void *data),
		     int (*visit_fairness)(const struct fairness *fairness, void *data), void *data)
{
	int err = 0;

	for (size_t i = 0; !err && i < holdings->cell_slots; i++)
		if (holdings->cells[i].changed)
			err = visit_cell(holdings, &holdings->cells[i], visit_caused, data);
	for (size_t i = 0; !err && i < holdings->lock_slots; i++) {
		struct holding_lock *lock = &holdings->locks[i];

		for (__u32 kind = 0; !err && lock->changed && kind < lock->kind_count; kind++) {
			lock->kinds[kind].releases = lock->releases;
			lock->kinds[kind].retakes = lock->retakes;
			err = visit_fairness(&lock->kinds[kind], data);
		}
		lock->changed = false;
	}
	return err;
}
