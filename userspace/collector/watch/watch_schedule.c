// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/watch_events.h"
#include "watch/watch_schedule.h"

static __u64 pairs_of(__u32 mask, bool each_alone)
{
	__u64 pairs = 0; /* by 8 * one + other */

	for (int one = 0; one < WATCH_PLACES; one++)
		for (int other = one; other < WATCH_PLACES; other++)
			if (mask >> one & 1 && mask >> other & 1 && (!each_alone || one == other))
				pairs |= 1ull << (8 * one + other);
	return pairs;
}

/*
 * Masks of at most `size` of the places, until each pair of these was in one
 * of them: for four of eight the six of a covering design, or one more.
 */
static void make_blocks(struct watch_blocks *blocks, __u32 places, int size)
{
	__u64 left = pairs_of(places, size == 1);

	*blocks = (struct watch_blocks){};
	if (size < 1)
		return;
	if (__builtin_popcount(places) <= size) {
		blocks->masks[blocks->count++] = places;
		return;
	}
	while (left && blocks->count < WATCH_BLOCKS) {
		__u64 covered = 0;
		__u32 best = 0;

		for (__u32 mask = 1; mask < 1u << WATCH_PLACES; mask++) {
			__u64 pairs;

			if (mask & ~places || __builtin_popcount(mask) != size)
				continue;
			pairs = pairs_of(mask, false) & left;
			if (__builtin_popcountll(pairs) > __builtin_popcountll(covered)) {
				covered = pairs;
				best = mask;
			}
		}
		left &= ~covered;
		blocks->masks[blocks->count++] = best;
	}
}

void watch_schedule_open(struct watch_schedule *turns, __u32 places, int slots)
{
	*turns = (struct watch_schedule){};
	make_blocks(&turns->plain, places, slots);
	make_blocks(&turns->typed, places, slots / 2);
}

bool watch_schedule_typed_are_whole(const struct watch_schedule *turns)
{
	return turns->typed.count == 1;
}

static bool next_is_typed(const struct watch_schedule *turns)
{
	return turns->typed.count && turns->typed_every && turns->windows % turns->typed_every == 0;
}

void watch_schedule_next(struct watch_schedule *turns, struct watch_selection *next)
{
	struct watch_blocks *blocks = next_is_typed(turns) ? &turns->typed : &turns->plain;

	*next = (struct watch_selection){
		.places = blocks->masks[blocks->turn++ % blocks->count],
		.typed = blocks == &turns->typed,
	};
	turns->windows++;
}

bool watch_schedule_stay(const struct watch_schedule *turns, const struct watch_selection *turn)
{
	if (turn->typed)
		return turns->typed_every == 1 && turns->typed.count == 1;
	return (!turns->typed_every || !turns->typed.count) && turns->plain.count == 1;
}
