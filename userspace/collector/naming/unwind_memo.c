// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>
#include <string.h>

#include "naming/unwind_memo.h"

_Static_assert(NAMING_STACK_BYTES <= UNWIND_NO_PLACE, "places are 16 bits");

static __u64 word_at(const struct memo_stack *stack, __u32 place)
{
	__u64 word;

	memcpy(&word, stack->bytes + place, sizeof(word));
	return word;
}

static bool is_like(const struct unwind_memo *memo, const struct memo_stack *stack)
{
	for (__u32 i = 1; i < memo->count; i++)
		if (memo->places[i] != UNWIND_NO_PLACE && (memo->places[i] + sizeof(__u64) > stack->size ||
							   word_at(stack, memo->places[i]) != memo->frames[i]))
			return false;
	return true;
}

static bool is_of(const struct unwind_memo *memo, const struct memo_stack *stack)
{
	return (memo->tgid == stack->tgid && memo->program == stack->program) ||
	       (stack->layout && memo->layout == stack->layout);
}

int unwind_memo_find(struct unwind_memos *memos, const struct memo_stack *stack, __u64 now_ns, __u64 *frames)
{
	for (int i = 0; i < UNWIND_MEMOS; i++) {
		struct unwind_memo *memo = &memos->list[i];

		if (!memo->count || memo->frames[0] != stack->pc || !is_of(memo, stack) || now_ns > memo->until_ns ||
		    !is_like(memo, stack))
			continue;
		memo->used = ++memos->uses;
		memcpy(frames, memo->frames, memo->count * sizeof(*frames));
		return memo->count;
	}
	return 0;
}

/* Where the frames' return addresses are, each above the one before. */
static bool find_places(struct unwind_memo *memo, const struct memo_stack *stack, __u32 inlined)
{
	__u32 place = 0;

	for (__u32 i = 1; i < memo->count; i++) {
		memo->places[i] = UNWIND_NO_PLACE;
		if (inlined >> i & 1)
			continue;
		while (place + sizeof(__u64) <= stack->size && word_at(stack, place) != memo->frames[i])
			place += sizeof(__u64);
		if (place + sizeof(__u64) > stack->size)
			return false;
		memo->places[i] = place;
		place += sizeof(__u64);
	}
	return true;
}

void unwind_memo_keep(struct unwind_memos *memos, const struct memo_stack *stack, __u64 until_ns, const __u64 *frames,
		      int count, __u32 inlined)
{
	struct unwind_memo *oldest = memos->list, made = {
							  .tgid = stack->tgid,
							  .program = stack->program,
							  .layout = stack->layout,
							  .count = count,
							  .until_ns = until_ns,
						  };

	/* Of one frame alone nothing would be compared. */
	if (count < 2 || count > NAMING_FRAMES || frames[0] != stack->pc)
		return;
	memcpy(made.frames, frames, count * sizeof(*frames));
	if (!find_places(&made, stack, inlined))
		return;
	for (int i = 0; i < UNWIND_MEMOS; i++)
		if (memos->list[i].used < oldest->used)
			oldest = &memos->list[i];
	made.used = ++memos->uses;
	*oldest = made;
}
