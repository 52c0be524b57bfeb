// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "watch/watch_pairs.h"

/* Of one exception there are at most the records of four watchpoints. */
#define APART 3

static bool same_exception(const struct watch_record *one, const struct watch_record *other)
{
	__u64 apart =
		one->sequence < other->sequence ? other->sequence - one->sequence : one->sequence - other->sequence;

	return apart && apart <= APART && one->cpu == other->cpu && one->ip == other->ip && one->tid == other->tid &&
	       one->tgid == other->tgid && !((one->flags ^ other->flags) & ~WATCH_WROTE) &&
	       !memcmp(one->registers, other->registers, sizeof(one->registers));
}

bool watch_is_pair(const struct watch_record *one, const struct watch_record *other)
{
	return (one->flags ^ other->flags) & WATCH_WROTE && one->offset == other->offset && same_exception(one, other);
}

/* The number of the record that is this one's partner, among those behind it; 0: none. */
static __u64 find_partner(const struct watch_record *records, __u64 count, __u64 number, const bool *taken)
{
	const struct watch_record *record = &records[number];

	for (__u64 i = number + 1; i < count && i <= number + APART; i++) {
		if (!same_exception(record, &records[i]))
			return 0;
		/* The same instruction again. */
		if (records[i].offset == record->offset && records[i].flags == record->flags)
			return 0;
		if (!taken[i - number - 1] && watch_is_pair(record, &records[i]))
			return i;
	}
	return 0;
}

/* Whether a record next to it was torn or overwritten. */
static bool lacks_neighbour(const struct watch_record *record, __u64 before, const struct watch_record *after)
{
	return (before && before + 1 != record->sequence) || (after && after->sequence != record->sequence + 1);
}

__u64 watch_pairs_merge(struct watch_record *records, __u64 count, bool both)
{
	bool taken[APART + 1] = {}; /* of the records behind this one */
	__u64 kept = 0, before = 0;

	for (__u64 i = 0; i < count; i++) {
		struct watch_record record = records[i];
		bool mine = taken[0], gap;
		__u64 partner;

		memmove(taken, taken + 1, sizeof(taken) - sizeof(taken[0]));
		taken[APART] = false;
		gap = lacks_neighbour(&record, before, i + 1 < count ? &records[i + 1] : NULL);
		before = record.sequence;
		if (mine)
			continue;
		if (!both) {
			record.flags |= record.flags & WATCH_WROTE ? 0 : WATCH_ONLY_READ;
			records[kept++] = record;
			continue;
		}
		partner = find_partner(records, count, i, taken);
		if (partner) {
			taken[partner - i - 1] = true;
			record.flags |= WATCH_WROTE;
		} else if (record.flags & WATCH_WROTE && !gap) {
			/* The other one did not count yet, or did not any more: the kernel has no hit of it. */
			continue;
		} else if (!(record.flags & WATCH_WROTE) && !gap) {
			record.flags |= WATCH_ONLY_READ;
		}
		records[kept++] = record;
	}
	return kept;
}
