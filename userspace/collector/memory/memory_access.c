// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_access.h"

#define FIRST_BITS 2 /* of first_shares */

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

/* Room for one thread more, so that a place stays free. */
static int reserve_share(struct memory_more *more, struct memory_budget *budget)
{
	__u32 size = 1u << more->share_bits;
	struct memory_share *larger;

	if (4 * (more->share_count + 1ull) <= 3ull * size)
		return 0;
	if (more->share_bits == 30 || !memory_budget_take(budget, size * sizeof(*larger)))
		return -ENOSPC;
	larger = calloc(2ull * size, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	for (__u32 i = 0; i < size; i++)
		if (more->shares[i].records)
			*find_share(larger, more->share_bits + 1, more->shares[i].thread) = more->shares[i];
	if (more->shares != more->first_shares)
		free(more->shares);
	more->shares = larger;
	more->share_bits++;
	return 0;
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
	more->kind_capacity = sizeof(more->first_kinds) / sizeof(more->first_kinds[0]);
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

void memory_access_fetch_more(const struct memory_access *access, const struct memory_access *sample)
{
	const struct memory_more *more = access->more;

	if (!more)
		return;
	__builtin_prefetch(&more->shares[place_of(sample->thread, more->share_bits)], 1);
	__builtin_prefetch(more->kinds, 1);
	if (more->cpus)
		__builtin_prefetch(more->cpus + sample->cpu / 8, 1);
}

bool memory_access_full(const struct memory_access *access)
{
	return access->count == ~0u;
}

static int add_to_more(struct memory_access *access, const struct memory_access *sample, struct memory_budget *budget)
{
	struct memory_more *more = access->more;
	struct memory_share *share = find_share(more->shares, more->share_bits, sample->thread);
	struct memory_kind_sum *kind = more->kinds, *end = kind + more->kind_count;
	const bool first = !share->records;
	int err = 0;

	while (kind < end && kind->kind != sample->kind)
		kind++;
	if (first)
		err = reserve_share(more, budget);
	if (!err && kind == end)
		err = reserve_kind(more, budget);
	if (!err && sample->cpu != access->cpu)
		err = reserve_cpu(more, sample->cpu, budget);
	if (err)
		return err;
	if (kind == end) {
		kind = &more->kinds[more->kind_count++];
		*kind = (struct memory_kind_sum){.kind = sample->kind};
	}
	if (first) {
		share = find_share(more->shares, more->share_bits, sample->thread);
		share->thread = sample->thread;
		more->share_count++;
	}
	share->records++;
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

__u32 memory_access_threads(const struct memory_access *access)
{
	return access->more ? access->more->share_count : 1;
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
	for (__u32 i = 0; i < 1u << more->share_bits; i++)
		if (more->shares[i].records)
			out[count++] = more->shares[i];
	qsort(out, count, sizeof(*out), compare_shares);
}

void memory_access_mark(const struct memory_access *access, __u8 *threads)
{
	const struct memory_more *more = access->more;

	threads[access->thread] = 1;
	for (__u32 i = 0; more && i < 1u << more->share_bits; i++)
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
	more->shares = more->first_shares;
	more->cpus = NULL;
	if (from->kinds != from->first_kinds)
		more->kinds = copy(from->kinds, from->kind_capacity * sizeof(*from->kinds));
	if (from->shares != from->first_shares)
		more->shares = copy(from->shares, sizeof(*from->shares) << from->share_bits);
	if (from->cpus)
		more->cpus = copy(from->cpus, from->cpu_bytes);
	if (more->kinds && more->shares && (more->cpus || !from->cpus))
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
	free(more->cpus);
	free(more);
}
