// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_access.h"

#define FIRST_BITS  2 /* of first_shares */
#define LIST_STEP   32
#define LISTED_FULL 0xffff
#define LISTED_MAX  (1u << 24)

static __u32 place_of(__u32 thread, __u32 bits)
{
	return (thread * 0x9e3779b1u) >> (32 - bits);
}

/* The thread's place, or the free one where it belongs. */
static struct memory_share *find_share(struct memory_share *shares, __u32 bits, __u32 thread)
{
	__u32 mask = (1u << bits) - 1, at = place_of(thread, bits);

	while (shares[at].records && shares[at].thread != thread)
		at = (at + 1) & mask;
	return &shares[at];
}

static __u64 table_size(const struct memory_more *more)
{
	return more->shares && more->shares != more->first_shares ? sizeof(*more->shares) << more->share_bits : 0;
}

/* A table of this size with the threads that are there. */
static int make_table(struct memory_more *more, __u32 bits, struct memory_budget *budget)
{
	__u64 size = sizeof(*more->shares) << bits, before = table_size(more);
	struct memory_share *larger;

	if (bits > 30 || !memory_budget_take(budget, size))
		return -ENOSPC;
	larger = calloc(1, size);
	if (!larger) {
		memory_budget_give(budget, size);
		return -ENOMEM;
	}
	for (__u32 i = 0; more->shares && i < 1u << more->share_bits; i++)
		if (more->shares[i].records)
			*find_share(larger, bits, more->shares[i].thread) = more->shares[i];
	for (__u32 i = 0; i < more->listed_size; i++)
		if (more->listed[i])
			*find_share(larger, bits, i) = (struct memory_share){i, more->listed[i]};
	if (before)
		free(more->shares);
	free(more->listed);
	memory_budget_give(budget, before + more->listed_size * sizeof(*more->listed));
	more->listed = NULL;
	more->listed_size = 0;
	more->shares = larger;
	more->share_bits = bits;
	return 0;
}

/* Back to a table: of too few threads of too many, or a count that is at its end. */
static int leave_list(struct memory_more *more, struct memory_budget *budget)
{
	__u32 bits = FIRST_BITS + 1;

	while (4 * (more->share_count + 1ull) > 3ull << bits)
		bits++;
	return make_table(more, bits, budget);
}

static __u32 list_size(__u32 thread)
{
	return (thread / LIST_STEP + 1) * LIST_STEP;
}

/* Whether a list for threads up to this one takes no more room than a table that has just grown. */
static bool list_fits(const struct memory_more *more, __u32 thread)
{
	return thread <= LISTED_MAX && list_size(thread) * sizeof(*more->listed) <= 16ull * more->share_count;
}

static int grow_list(struct memory_more *more, __u32 thread, struct memory_budget *budget)
{
	__u32 size = list_size(thread), before = more->listed_size;
	__u16 *larger;

	if (!memory_budget_take(budget, (size - before) * sizeof(*larger)))
		return -ENOSPC;
	larger = realloc(more->listed, size * sizeof(*larger));
	if (!larger) {
		memory_budget_give(budget, (size - before) * sizeof(*larger));
		return -ENOMEM;
	}
	memset(larger + before, 0, (size - before) * sizeof(*larger));
	more->listed = larger;
	more->listed_size = size;
	return 0;
}

/* Puts the threads of a full table into a list where that takes less room: 1 if it has. */
static int enter_list(struct memory_more *more, __u32 thread, struct memory_budget *budget)
{
	int err;

	for (__u32 i = 0; i < 1u << more->share_bits; i++) {
		if (more->shares[i].records >= LISTED_FULL)
			return 0;
		if (more->shares[i].records && more->shares[i].thread > thread)
			thread = more->shares[i].thread;
	}
	if (!list_fits(more, thread))
		return 0;
	err = grow_list(more, thread, budget);
	if (err)
		return err;
	for (__u32 i = 0; i < 1u << more->share_bits; i++)
		if (more->shares[i].records)
			more->listed[more->shares[i].thread] = more->shares[i].records;
	memory_budget_give(budget, table_size(more));
	if (table_size(more))
		free(more->shares);
	more->shares = NULL;
	return 1;
}

/* Room for one more sample of the thread, and for a thread that is new. */
static int reserve_share(struct memory_more *more, __u32 thread, struct memory_budget *budget)
{
	int err;

	if (more->listed) {
		if (thread < more->listed_size)
			return more->listed[thread] == LISTED_FULL ? leave_list(more, budget) : 0;
		return list_fits(more, thread) ? grow_list(more, thread, budget) : leave_list(more, budget);
	}
	/* A place stays free. */
	if (4 * (more->share_count + 1ull) <= 3ull << more->share_bits ||
	    find_share(more->shares, more->share_bits, thread)->records)
		return 0;
	err = enter_list(more, thread, budget);
	return err ? (err > 0 ? 0 : err) : make_table(more, more->share_bits + 1, budget);
}

/* One sample more; there is room. */
static void count_share(struct memory_more *more, __u32 thread)
{
	struct memory_share *share;

	if (more->listed) {
		more->share_count += !more->listed[thread]++;
		return;
	}
	share = find_share(more->shares, more->share_bits, thread);
	share->thread = thread;
	more->share_count += !share->records++;
}

/* No kind of a sample. */
#define NO_KIND (~0u)

/* The sum of a kind, or NULL.  Which of the first ones it is cannot be foreseen, and a wrong guess costs more than all. */
static struct memory_kind_sum *find_kind(const struct memory_more *more, __u32 kind)
{
	struct memory_kind_sum *kinds = more->kinds;
	__u32 at = (kinds[1].kind == kind) + 2 * (kinds[2].kind == kind) + 3 * (kinds[3].kind == kind);

	if (kinds[at].kind == kind)
		return &kinds[at];
	for (at = MEMORY_KINDS; at < more->kind_count; at++)
		if (kinds[at].kind == kind)
			return &kinds[at];
	return NULL;
}

static int reserve_kind(struct memory_more *more, struct memory_budget *budget)
{
	__u32 larger = 2 * more->kind_capacity;
	struct memory_kind_sum *moved;

	if (more->kind_count < more->kind_capacity)
		return 0;
	if (!memory_budget_take(budget, (larger - more->kind_capacity) * sizeof(*moved)))
		return -ENOSPC;
	moved = realloc(more->kinds == more->first_kinds ? NULL : more->kinds, larger * sizeof(*moved));
	if (!moved)
		return -ENOMEM;
	if (more->kinds == more->first_kinds)
		memcpy(moved, more->first_kinds, sizeof(more->first_kinds));
	more->kinds = moved;
	more->kind_capacity = larger;
	return 0;
}

static int reserve_cpu(struct memory_more *more, __u16 cpu, struct memory_budget *budget)
{
	__u32 bytes = (cpu / 64 + 1) * 8;
	__u8 *larger;

	if (cpu == MEMORY_NO_CPU || bytes <= more->cpu_bytes)
		return 0;
	if (!memory_budget_take(budget, bytes - more->cpu_bytes))
		return -ENOSPC;
	larger = realloc(more->cpus, bytes);
	if (!larger)
		return -ENOMEM;
	memset(larger + more->cpu_bytes, 0, bytes - more->cpu_bytes);
	more->cpus = larger;
	more->cpu_bytes = bytes;
	return 0;
}

static void set_cpu(struct memory_more *more, __u16 cpu)
{
	if (cpu != MEMORY_NO_CPU)
		more->cpus[cpu / 8] |= 1u << cpu % 8;
}

/* All samples so far are like the first. */
static int make_more(struct memory_access *access, struct memory_budget *budget)
{
	struct memory_more *more;

	if (!memory_budget_take(budget, sizeof(*more)))
		return -ENOSPC;
	more = calloc(1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	more->kinds = more->first_kinds;
	more->kind_capacity = MEMORY_KINDS;
	for (int i = 1; i < MEMORY_KINDS; i++)
		more->kinds[i].kind = NO_KIND;
	more->kinds[more->kind_count++] = (struct memory_kind_sum){access->kind, access->count, access->weight};
	more->shares = more->first_shares;
	more->share_bits = FIRST_BITS;
	*find_share(more->shares, FIRST_BITS, access->thread) = (struct memory_share){access->thread, access->count};
	more->share_count = 1;
	access->more = more;
	return 0;
}

void memory_access_fetch(const struct memory_access *access)
{
	__builtin_prefetch(access->more);
}

void memory_access_fetch_more(const struct memory_access *access, __u32 thread, __u32 cpu)
{
	const struct memory_more *more = access->more;

	if (!more)
		return;
	if (more->listed)
		__builtin_prefetch(&more->listed[thread], 1);
	else
		__builtin_prefetch(&more->shares[place_of(thread, more->share_bits)], 1);
	__builtin_prefetch(more->kinds, 1);
	if (more->cpus)
		__builtin_prefetch(more->cpus + cpu / 8, 1);
}

static int add_to_more(struct memory_access *access, const struct memory_access *sample, struct memory_budget *budget)
{
	struct memory_more *more = access->more;
	struct memory_kind_sum *kind = find_kind(more, sample->kind);
	int err = reserve_share(more, sample->thread, budget);

	if (!err && !kind)
		err = reserve_kind(more, budget);
	if (!err && sample->cpu != access->cpu)
		err = reserve_cpu(more, sample->cpu, budget);
	if (err)
		return err;
	if (!kind) {
		kind = &more->kinds[more->kind_count++];
		*kind = (struct memory_kind_sum){.kind = sample->kind};
	}
	count_share(more, sample->thread);
	kind->count++;
	kind->weight += sample->weight;
	if (access->cpu == MEMORY_NO_CPU)
		access->cpu = sample->cpu;
	else if (sample->cpu != access->cpu)
		set_cpu(more, sample->cpu);
	access->count++;
	return 0;
}

int memory_access_add(struct memory_access *access, const struct memory_access *sample, struct memory_budget *budget)
{
	int err;

	if (!access->more) {
		if (access->kind == sample->kind && access->thread == sample->thread && access->cpu == sample->cpu) {
			access->count++;
			access->weight += sample->weight;
			return 0;
		}
		err = make_more(access, budget);
		if (err)
			return err;
	}
	return add_to_more(access, sample, budget);
}

bool memory_access_count(struct memory_access *access, __u32 kind, __u32 thread, __u16 cpu, __u64 weight)
{
	struct memory_more *more = access->more;
	struct memory_kind_sum *sum;

	if (!more || thread >= more->listed_size || more->listed[thread] == LISTED_FULL || memory_access_full(access))
		return false;
	sum = find_kind(more, kind);
	if (!sum)
		return false;
	if (cpu != access->cpu) {
		if (access->cpu == MEMORY_NO_CPU || cpu / 8u >= more->cpu_bytes)
			return false;
		more->cpus[cpu / 8] |= 1u << cpu % 8;
	}
	more->share_count += !more->listed[thread]++;
	sum->count++;
	sum->weight += weight;
	access->count++;
	return true;
}

__u32 memory_access_threads(const struct memory_access *access)
{
	return access->more ? access->more->share_count : 1;
}

bool memory_access_has_cpus(const struct memory_access *access)
{
	/* The first sample's CPU is not among them. */
	for (__u32 i = 0; access->more && i < access->more->cpu_bytes; i++)
		if (access->more->cpus[i])
			return true;
	return false;
}

static int compare_shares(const void *a, const void *b)
{
	const struct memory_share *x = a, *y = b;

	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

void memory_access_shares(const struct memory_access *access, struct memory_share *out)
{
	const struct memory_more *more = access->more;
	__u32 count = 0;

	if (!more) {
		*out = (struct memory_share){access->thread, access->count};
		return;
	}
	for (__u32 i = 0; i < more->listed_size; i++)
		if (more->listed[i])
			out[count++] = (struct memory_share){i, more->listed[i]};
	if (more->listed)
		return;
	for (__u32 i = 0; i < 1u << more->share_bits; i++)
		if (more->shares[i].records)
			out[count++] = more->shares[i];
	qsort(out, count, sizeof(*out), compare_shares);
}

void memory_access_mark(const struct memory_access *access, __u8 *threads)
{
	const struct memory_more *more = access->more;

	threads[access->thread] = 1;
	for (__u32 i = 0; more && i < more->listed_size; i++)
		threads[i] |= more->listed[i] > 0;
	for (__u32 i = 0; more && more->shares && i < 1u << more->share_bits; i++)
		if (more->shares[i].records)
			threads[more->shares[i].thread] = 1;
}

static void *copy(const void *from, size_t size)
{
	void *to = malloc(size);

	if (to)
		memcpy(to, from, size);
	return to;
}

int memory_access_copy(struct memory_access *out, const struct memory_access *access)
{
	const struct memory_more *from = access->more;
	struct memory_more *more;

	*out = *access;
	if (!from)
		return 0;
	out->more = more = copy(from, sizeof(*more));
	if (!more)
		return -ENOMEM;
	more->kinds = more->first_kinds;
	more->shares = from->shares ? more->first_shares : NULL;
	more->listed = NULL;
	more->cpus = NULL;
	if (from->kinds != from->first_kinds)
		more->kinds = copy(from->kinds, from->kind_capacity * sizeof(*from->kinds));
	if (from->shares && from->shares != from->first_shares)
		more->shares = copy(from->shares, sizeof(*from->shares) << from->share_bits);
	if (from->listed)
		more->listed = copy(from->listed, from->listed_size * sizeof(*from->listed));
	if (from->cpus)
		more->cpus = copy(from->cpus, from->cpu_bytes);
	if (more->kinds && (more->shares || more->listed) && (more->cpus || !from->cpus))
		return 0;
	memory_access_free(out);
	return -ENOMEM;
}

void memory_access_free(struct memory_access *access)
{
	struct memory_more *more = access->more;

	access->more = NULL;
	if (!more)
		return;
	if (more->kinds != more->first_kinds)
		free(more->kinds);
	if (more->shares != more->first_shares)
		free(more->shares);
	free(more->listed);
	free(more->cpus);
	free(more);
}
