// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "watch/watch_code.h"
#include "watch/watch_decoded.h"

#define LATE_MOST   2048
#define LATE_UNTOLD 8  /* fewer are no reason for anything */
#define TOO_MANY    64 /* one of so many is not told */
#define EVERY       4

#define TYPED (WATCH_WROTE | WATCH_ONLY_READ)

void watch_kind_note(struct watch_kind *kind, __u8 flags)
{
	kind->only_read += !!(flags & WATCH_ONLY_READ);
	kind->wrote += !!(flags & WATCH_WROTE);
}

bool watch_agree(__u8 decoded, __u8 flags, bool both)
{
	if (flags & WATCH_WROTE)
		return decoded & ACCESS_WRITE;
	/* On arm64 an atomic hits but one of the two. */
	return both ? !(decoded & ACCESS_WRITE) : decoded & ACCESS_READ;
}

static bool is_atomic(__u8 decoded)
{
	const __u8 all = ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED;

	return (decoded & all) == all;
}

static enum watch_decoded tell_by_watchpoint(__u8 decoded, __u8 flags, bool both, __u8 *access)
{
	/* arm64's are known by their encoding; which of the two watchpoints they hit is up to the processor. */
	if (!both && is_atomic(decoded))
		*access = ACCESS_READ | ACCESS_WRITE;
	else
		*access = flags & WATCH_WROTE ? ACCESS_WRITE : ACCESS_READ;
	return DECODED_BY_WATCHPOINT;
}

enum watch_decoded watch_tell(enum watch_access_from from, __u8 decoded, __u8 flags, const struct watch_kind *kind,
			      bool both, __u8 *access)
{
	bool by_instruction = decoded && from != ACCESS_FROM_WATCHPOINT;

	*access = by_instruction ? decoded : 0;
	if (flags & TYPED && !(by_instruction && watch_agree(decoded, flags, both)))
		return tell_by_watchpoint(decoded, flags, both, access);
	if (by_instruction)
		return DECODED_BY_INSTRUCTION;
	if (!kind->only_read == !kind->wrote)
		return DECODED_NOT;
	tell_by_watchpoint(decoded, kind->wrote ? WATCH_WROTE : WATCH_ONLY_READ, both, access);
	return DECODED_BEFORE;
}

void watch_decoded_close(struct watch_decoded_sums *sums)
{
	free(sums->comparisons);
	free(sums->comparison_index.slots);
	*sums = (struct watch_decoded_sums){};
}

static int compare(struct watch_decoded_sums *sums, struct memory_budget *budget, __u32 code, __u8 decoded, __u8 flags)
{
	__u32 hash = hash_two(code, decoded);
	struct watch_comparison *found = NULL;
	int err;

	hash_index_for(&sums->comparison_index, hash, number)
	{
		if (sums->comparisons[number].code != code || sums->comparisons[number].decoded != decoded)
			continue;
		found = &sums->comparisons[number];
		break;
	}
	if (!found) {
		err = memory_reserve((void **)&sums->comparisons, sums->comparison_count, &sums->comparison_capacity,
				     sizeof(*sums->comparisons), budget);
		err = err ?: hash_index_add(&sums->comparison_index, budget, hash, sums->comparison_count);
		if (err)
			return err == -ENOSPC ? 0 : err;
		found = &sums->comparisons[sums->comparison_count++];
		*found = (struct watch_comparison){.code = code, .decoded = decoded};
	}
	found->only_read += !!(flags & WATCH_ONLY_READ);
	found->wrote += !!(flags & WATCH_WROTE);
	found->changed = true;
	return 0;
}

int watch_decoded_add(struct watch_decoded_sums *sums, struct memory_budget *budget, __u32 code,
		      enum watch_decoded told, __u8 decoded, __u8 flags, bool both)
{
	sums->by[told]++;
	sums->late++;
	sums->late_untold += told == DECODED_NOT;
	if (!(flags & TYPED))
		return 0;
	if (decoded) {
		sums->compared++;
		sums->disagreed += !watch_agree(decoded, flags, both);
	}
	return compare(sums, budget, code, decoded, flags);
}

__u32 watch_typed_every(struct watch_decoded_sums *sums)
{
	__u32 many = sums->late / TOO_MANY;

	/* Once begun, until it is clearly less. */
	if (sums->late_untold >= LATE_UNTOLD && sums->late_untold > many)
		sums->wanted = true;
	else if (sums->late_untold <= many / 2)
		sums->wanted = false;
	if (sums->late > LATE_MOST) {
		sums->late /= 2;
		sums->late_untold /= 2;
	}
	return sums->wanted ? EVERY : 0;
}

const char *watch_access_from(enum watch_access_from from, const struct watch_decoded_sums *sums)
{
	if (from == ACCESS_FROM_WATCHPOINT)
		return "watchpoint";
	if (!sums->by[DECODED_BY_WATCHPOINT] && !sums->by[DECODED_BEFORE])
		return "instruction";
	return sums->by[DECODED_BY_INSTRUCTION] ? "instruction and watchpoint" : "watchpoint";
}
