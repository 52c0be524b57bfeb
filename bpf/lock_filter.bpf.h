/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Filters by lock and by caller (record -L, -S), asked at a wait's begin, after those by task.  Without them the
 * verifier drops all of this.
 */
#ifndef LOCK_FILTER_BPF_H
#define LOCK_FILTER_BPF_H

#include "event.bpf.h"
#include "table.bpf.h"
#include "lock_filter.h"

const volatile bool filter_locks __weak = false;      /* -L */
const volatile bool filter_lock_names __weak = false; /* of these some have no address beforehand */
const volatile __u32 lock_range_count __weak = 0;
const volatile __u64 lock_range_begin[LOCK_RANGES] __weak = {};
const volatile __u64 lock_range_bytes[LOCK_RANGES] __weak = {};
const volatile bool filter_callers __weak = false; /* -S */
const volatile __u32 caller_range_count __weak = 0;

SHARED_ARRAY(lock_verdicts, __u64);
SHARED_ARRAY(lock_questions, struct lock_question);
SHARED_ARRAY(question_states, struct question_state);
SHARED_ARRAY(caller_ranges, struct address_range); /* sorted; they do not overlap */

static __always_inline bool in_lock_ranges(__u64 lock)
{
	for (__u32 i = 0; i < LOCK_RANGES; i++) {
		if (i >= lock_range_count)
			break;
		if (lock - lock_range_begin[i] < lock_range_bytes[i])
			return true;
	}
	return false;
}

/* What the collector needs to name the lock. */
static __noinline int ask_for_name(void *ctx, __u64 lock, __u32 kind)
{
	__u32 cpu = bpf_get_smp_processor_id(), index;
	struct question_state *state = bpf_map_lookup_elem(&question_states, &cpu);
	struct lock_question *question;
	__u64 position;
	long bytes;

	if (!ctx || !state)
		return 0;
	position = __sync_fetch_and_add(&state->asked, 1);
	index = cpu * QUESTIONS + (position & (QUESTIONS - 1));
	question = bpf_map_lookup_elem(&lock_questions, &index);
	if (!question)
		return 0;
	__sync_lock_test_and_set(&question->sequence, 0);
	question->lock = lock;
	question->kind = kind;
	question->row.owner = OWNER_UNKNOWN;
	find_owner(&question->row, lock, bpf_get_current_task());
	bytes = bpf_get_stack(ctx, question->kernel, sizeof(question->kernel), 0);
	question->kernel_frames = bytes < 0 ? 0 : (__u64)bytes / sizeof(__u64);
	__sync_lock_test_and_set(&question->sequence, position + 1);
	return 0;
}

/* The verdict's place: of this lock, or free; NULL: neither. */
static __always_inline __u64 *find_verdict(__u64 lock)
{
	for (__u32 probe = 0; probe < VERDICT_PROBES; probe++) {
		__u32 index = verdict_slot(lock, probe);
		__u64 *word = bpf_map_lookup_elem(&lock_verdicts, &index);

		if (!word)
			return NULL;
		if (!*word || *word >> 8 == verdict_word(lock, 0) >> 8)
			return word;
	}
	return NULL;
}

/* The enum verdict of a lock by its name; the first wait for a lock asks. */
static __noinline int verdict_by_name(void *ctx, __u64 lock, __u32 kind)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct question_state *state = bpf_map_lookup_elem(&question_states, &cpu);
	__u64 *word = find_verdict(lock);

	if (!ctx || !state || !word)
		return VERDICT_NONE;
	if (*word)
		return *word & 0xff;
	/* A storm of new locks: the collector names so many at a time. */
	if (!state->tokens)
		return VERDICT_NONE;
	state->tokens--;
	if (!__sync_val_compare_and_swap(word, 0, verdict_word(lock, VERDICT_ASKED)))
		ask_for_name(ctx, lock, kind);
	return VERDICT_ASKED;
}

static __noinline int lock_wanted(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind)
{
	int verdict;

	if (!ctx || !state)
		return 0;
	if (in_lock_ranges(lock))
		return 1;
	if (!filter_lock_names)
		return 0;
	verdict = verdict_by_name(ctx, lock, kind);
	if (verdict == VERDICT_NONE || verdict == VERDICT_ASKED)
		count(state, COUNT_UNNAMED, 1);
	return verdict == VERDICT_WANTED;
}

/* As lock_wanted(), for those who need not know of a lock that nobody has waited for yet. */
static __always_inline bool lock_known_wanted(__u64 lock)
{
	const __u64 *word;

	if (!filter_locks || in_lock_ranges(lock))
		return true;
	word = filter_lock_names ? find_verdict(lock) : NULL;
	return word && (*word & 0xff) == VERDICT_WANTED;
}

static __noinline int is_caller(__u64 address)
{
	__u32 low = 0, high = caller_range_count;

	for (__u32 width = CALLER_RANGES; width && low < high; width >>= 1) {
		__u32 middle = low + (high - low) / 2;
		const struct address_range *range = bpf_map_lookup_elem(&caller_ranges, &middle);

		if (!range)
			return 0;
		if (address < range->begin)
			high = middle;
		else if (address >= range->end)
			low = middle + 1;
		else
			return 1;
	}
	return 0;
}

/* Whether one of the functions is among the waiter's callers.  Walks the stack of every wait that came so far. */
static __noinline int caller_wanted(void *ctx)
{
	__u64 frames[STACK_FRAMES] = {};

	if (!ctx)
		return 0;
	bpf_get_stack(ctx, frames, sizeof(frames), 0);
	for (__u32 i = 0; i < STACK_FRAMES; i++) {
		if (!frames[i])
			break;
		/* A return address can be that of the next function. */
		if (is_caller(frames[i] - 1))
			return 1;
	}
	return 0;
}

#endif /* LOCK_FILTER_BPF_H */
