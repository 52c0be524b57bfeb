/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An index of an array by hash: open addressing; a place holds the item's
 * number and its hash, so that growing looks at no item, and budgets for the
 * memory of all of them.
 *
 *	hash_index_for(&index, hash, number)
 *		if (equal(items[number]))
 *			return number;
 *
 * Items are never taken out.
 */
#ifndef LOCKLINE_HASH_INDEX_H
#define LOCKLINE_HASH_INDEX_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <linux/types.h>

struct memory_budget {
	__u64 used; /* bytes */
	__u64 limit;
};

static inline bool memory_budget_take(struct memory_budget *budget, __u64 bytes)
{
	if (bytes > budget->limit - budget->used)
		return false;
	budget->used += bytes;
	return true;
}

static inline void memory_budget_give(struct memory_budget *budget, __u64 bytes)
{
	budget->used -= bytes < budget->used ? bytes : budget->used;
}

struct hash_slot {
	__u32 hash;
	__u32 item; /* its number + 1; 0: free */
};

struct hash_index {
	struct hash_slot *slots;
	__u32 mask;
	__u32 count;
};

static inline __u32 hash_two(__u64 a, __u64 b)
{
	__u64 hash = (a ^ (b << 32 | b >> 32) * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;

	hash ^= hash >> 33;
	return (hash * 0xc4ceb9fe1a85ec53ull) >> 32;
}

/* All items of this hash, by number; break and return leave it. */
#define hash_index_for(index, wanted, number)                                                                        \
	for (__u32 slot_ = (wanted), number; (index)->slots && (index)->slots[slot_ &= (index)->mask].item; slot_++) \
		if ((index)->slots[slot_].hash == (wanted) && (number = (index)->slots[slot_].item - 1, true))

static inline void hash_index_place(struct hash_index *index, __u32 hash, __u32 item)
{
	__u32 at = hash & index->mask;

	while (index->slots[at].item)
		at = (at + 1) & index->mask;
	index->slots[at] = (struct hash_slot){hash, item};
}

/* -ENOSPC: not within the budget. */
static inline int hash_index_add(struct hash_index *index, struct memory_budget *budget, __u32 hash, __u32 number)
{
	__u64 size = index->slots ? index->mask + 1ull : 0;

	if (3 * (index->count + 1ull) > 2 * size) {
		__u64 larger = size ? 2 * size : 256;
		struct hash_index grown = {.mask = larger - 1, .count = index->count};

		if (larger > 1ull << 31 || !memory_budget_take(budget, (larger - size) * sizeof(*grown.slots)))
			return -ENOSPC;
		grown.slots = calloc(larger, sizeof(*grown.slots));
		if (!grown.slots)
			return -ENOMEM;
		for (__u64 i = 0; i < size; i++)
			if (index->slots[i].item)
				hash_index_place(&grown, index->slots[i].hash, index->slots[i].item);
		free(index->slots);
		*index = grown;
	}
	hash_index_place(index, hash, number + 1);
	index->count++;
	return 0;
}

/* Room for one more item of size bytes in an array of *capacity; moves little: large arrays are remapped. */
static inline int memory_reserve(void **array, __u32 count, __u32 *capacity, size_t size, struct memory_budget *budget)
{
	__u64 larger = *capacity + *capacity / 4ull + 64;
	void *moved;

	if (count < *capacity)
		return 0;
	if (larger > ~0u - 1 || !memory_budget_take(budget, (larger - *capacity) * size))
		return -ENOSPC;
	moved = realloc(*array, larger * size);
	if (!moved)
		return -ENOMEM;
	*array = moved;
	*capacity = larger;
	return 0;
}

#endif /* LOCKLINE_HASH_INDEX_H */
