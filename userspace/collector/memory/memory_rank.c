// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_rank.h"

#define ALWAYS_SHARE 1000 /* one of so many */
/* A fill buffer hit waited for a part of a transfer. */
#define WAITS_OF_A_TRANSFER 16

struct candidate {
	__u64 score;
	__u32 line;
	__u32 samples;
};

/* Transfers, then sharing, then the number of samples. */
static __u64 score(const struct memory_line *line)
{
	__u64 transfers = line->snoops * (__u64)WAITS_OF_A_TRANSFER + (line->stores && line->several ? line->waits : 0);

	return transfers << 1 | line->several;
}

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static void swap(struct candidate *a, struct candidate *b)
{
	struct candidate other = *a;

	*a = *b;
	*b = other;
}

/* Puts the best wanted ones first, in any order: quickselect by Hoare's partition. */
static void select_best(struct candidate *list, __u32 count, __u32 wanted)
{
	while (wanted < count && count > 1) {
		struct candidate pivot = list[(count - 1) / 2];
		__u32 left = ~0u, right = count;

		for (;;) {
			do
				left++;
			while (compare_candidates(&list[left], &pivot) < 0);
			do
				right--;
			while (compare_candidates(&list[right], &pivot) > 0);
			if (left >= right)
				break;
			swap(&list[left], &list[right]);
		}
		/* All up to right are better than those behind. */
		if (wanted <= right + 1) {
			count = right + 1;
		} else {
			list += right + 1;
			count -= right + 1;
			wanted -= right + 1;
		}
	}
}

/* What a line has. */
struct extent {
	__u32 accesses;
	__u32 threads; /* of each access, in sum */
};

static struct extent *measure(const struct memory_lines *lines)
{
	struct extent *extents = calloc(lines->line_count + 1ull, sizeof(*extents));

	for (__u32 i = 0; extents && i < lines->access_count; i++) {
		extents[lines->accesses[i].line].accesses++;
		extents[lines->accesses[i].line].threads += memory_access_threads(&lines->accesses[i]);
	}
	return extents;
}

static int choose(struct memory_rank *rank, const struct memory_lines *lines, const struct extent *extents,
		  __u64 accesses, __u64 *kept)
{
	__u64 threads = 0;
	struct candidate *list = malloc((lines->line_count + 1ull) * sizeof(*list));
	__u64 snoops = 0;
	__u32 wanted;

	if (!list)
		return -ENOMEM;
	for (__u32 i = 0; i < lines->line_count; i++) {
		list[i] = (struct candidate){score(&lines->lines[i]), i, lines->lines[i].samples};
		snoops += lines->lines[i].snoops;
	}
	/* Each line has one access at least. */
	wanted = lines->line_count;
	if (wanted > ALWAYS_SHARE && accesses < wanted - ALWAYS_SHARE)
		wanted = accesses + ALWAYS_SHARE;
	select_best(list, lines->line_count, wanted);
	qsort(list, wanted, sizeof(*list), compare_candidates);
	rank->lines = malloc((wanted + 1ull) * sizeof(*rank->lines));
	*kept = 0;
	for (__u32 i = 0; rank->lines && i < wanted; i++) {
		const struct memory_line *line = &lines->lines[list[i].line];
		bool listed = line->snoops && line->snoops * (__u64)ALWAYS_SHARE >= snoops;

		if (threads + extents[list[i].line].threads > accesses && !listed)
			continue;
		rank->lines[rank->line_count++] = list[i].line;
		*kept += extents[list[i].line].accesses;
		threads += extents[list[i].line].threads;
	}
	free(list);
	return rank->lines ? 0 : -ENOMEM;
}

static int compare_accesses(const void *a, const void *b)
{
	const struct memory_access *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->code < y->code ? -1 : x->code > y->code;
}

int memory_rank_make(struct memory_rank *rank, struct memory_lines *lines, __u64 accesses, bool own)
{
	struct extent *extents = measure(lines);
	__u32 *places = NULL, at = 0;
	__u64 kept = 0, snoops = 0, records = 0;
	int err;

	*rank = (struct memory_rank){.own = own};
	if (!extents)
		return -ENOMEM;
	memory_lines_sum(lines);
	err = choose(rank, lines, extents, accesses, &kept);
	if (err)
		goto out;
	rank->accesses = calloc(kept + 1, sizeof(*rank->accesses));
	rank->ends = malloc((rank->line_count + 1ull) * sizeof(*rank->ends));
	places = malloc((lines->line_count + 1ull) * sizeof(*places));
	if (!rank->accesses || !rank->ends || !places) {
		err = -ENOMEM;
		goto out;
	}
	memset(places, 0xff, lines->line_count * sizeof(*places));
	for (__u32 i = 0; i < rank->line_count; i++) {
		places[rank->lines[i]] = at;
		at += extents[rank->lines[i]].accesses;
		rank->ends[i] = at;
		snoops += lines->lines[rank->lines[i]].snoops;
		records += lines->lines[rank->lines[i]].samples;
	}
	for (__u32 i = 0; !err && i < lines->access_count; i++) {
		__u32 *place = &places[lines->accesses[i].line];

		if (*place == ~0u)
			continue;
		if (own)
			err = memory_access_copy(&rank->accesses[(*place)++], &lines->accesses[i]);
		else
			rank->accesses[(*place)++] = lines->accesses[i];
	}
	if (err)
		goto out;
	for (__u32 i = 0; i < rank->line_count; i++) {
		__u32 begin = i ? rank->ends[i - 1] : 0;

		qsort(rank->accesses + begin, rank->ends[i] - begin, sizeof(*rank->accesses), compare_accesses);
	}
	rank->lines_left_out = lines->line_count - rank->line_count;
	for (__u32 i = 0; i < lines->line_count; i++) {
		rank->snoops_left_out += lines->lines[i].snoops;
		rank->records_left_out += lines->lines[i].samples;
	}
	rank->snoops_left_out -= snoops;
	rank->records_left_out -= records;
out:
	free(extents);
	free(places);
	if (err)
		memory_rank_free(rank);
	return err;
}

void memory_rank_free(struct memory_rank *rank)
{
	if (rank->own && rank->accesses && rank->ends && rank->line_count)
		for (__u32 i = 0; i < rank->ends[rank->line_count - 1]; i++)
			memory_access_free(&rank->accesses[i]);
	free(rank->lines);
	free(rank->accesses);
	free(rank->ends);
	*rank = (struct memory_rank){};
}
