// SPDX-License-Identifier: GPL-2.0-or-later
/* Stacks that are known from a walk before: what is taken for the same one, and what is not. */
#include "wait_test.h"

#include <string.h>

#define NUMBER 5
#define FIRST  3
#define COUNT  8
#define DEPTH  300 /* words from a program's arguments to the end */

/* Of a function that called another: as of the kernel's text. */
#define CALLER(n) (0xffffffff81000000ull + (n)*0x40ull)

/* Frames before FIRST are the program's own, and are not on the stack.  The last one lies next to its end. */
static const __u32 places[COUNT] = {0, 0, 0, 7, 13, 14, 60, DEPTH - 22};

static __u64 *words_of(struct bench *bench, __u32 depth)
{
	return bench->skeleton->bss->stack_words + bench->skeleton->bss->stack_end_word - depth;
}

/* Puts the callers where they lie. */
static void lay_out(struct bench *bench)
{
	for (__u32 frame = FIRST; frame < COUNT; frame++)
		words_of(bench, DEPTH)[places[frame]] = CALLER(frame);
}

static void walked(struct kernel_frames *frames)
{
	for (__u32 frame = 0; frame < COUNT; frame++)
		frames->address[frame] = CALLER(frame);
}

/* Whether it could be learned. */
static int learn_one(struct bench *bench)
{
	run_place_stack(bench);
	memset(bench->skeleton->bss->stack_words, 0, sizeof(bench->skeleton->bss->stack_words));
	lay_out(bench);
	walked(&bench->known->stacks[NUMBER].frames);
	return run_learn_stack(bench, DEPTH, NUMBER, COUNT);
}

void a_walked_stack_is_known(struct bench *bench)
{
	CHECK_EQUAL(run_find_stack(bench, DEPTH), 0);
	CHECK_EQUAL(learn_one(bench), 1);
	CHECK_EQUAL(bench->known->stacks[NUMBER].first, FIRST);
	CHECK_EQUAL(run_find_stack(bench, DEPTH), NUMBER + 1);
	/* Words between the return addresses are data. */
	words_of(bench, DEPTH)[20] = CALLER(99);
	CHECK_EQUAL(run_find_stack(bench, DEPTH), NUMBER + 1);
	/* arm64 signs them. */
	words_of(bench, DEPTH)[13] &= ~(0x7full << 48);
	CHECK_EQUAL(run_find_stack(bench, DEPTH), NUMBER + 1);
}

void another_caller_is_another_stack(struct bench *bench)
{
	for (__u32 frame = FIRST; frame < COUNT; frame++) {
		learn_one(bench);
		words_of(bench, DEPTH)[places[frame]] = CALLER(99);
		CHECK(!run_find_stack(bench, DEPTH), "frame %u is another", frame);
	}
}

/* The first frame of a system call has a random size: all but the last one are as far from the arguments as before. */
void a_first_frame_has_any_size(struct bench *bench)
{
	__u64 *longer;

	learn_one(bench);
	longer = words_of(bench, DEPTH + 18);
	memset(bench->skeleton->bss->stack_words, 0, sizeof(bench->skeleton->bss->stack_words));
	for (__u32 frame = FIRST; frame + 1 < COUNT; frame++)
		longer[places[frame]] = CALLER(frame);
	CHECK_EQUAL(run_find_stack(bench, DEPTH + 18), 0);
	longer[places[COUNT - 1] + 18] = CALLER(COUNT - 1);
	CHECK_EQUAL(run_find_stack(bench, DEPTH + 18), NUMBER + 1);
	/* Another frame that grows makes another stack. */
	longer[places[COUNT - 2]] = 0;
	longer[places[COUNT - 2] + 1] = CALLER(COUNT - 2);
	CHECK_EQUAL(run_find_stack(bench, DEPTH + 18), 0);
}

void a_stack_with_a_missing_frame_is_not_learned(struct bench *bench)
{
	learn_one(bench);
	for (__u32 frame = FIRST; frame < COUNT; frame++) {
		lay_out(bench);
		words_of(bench, DEPTH)[places[frame]] = 0;
		CHECK(!run_learn_stack(bench, DEPTH, NUMBER, COUNT) || bench->known->stacks[NUMBER].first > frame,
		      "without frame %u", frame);
		if (frame > FIRST)
			CHECK_EQUAL(run_find_stack(bench, DEPTH), 0);
	}
	/* A stale copy of the address before it, below the one that counts or above. */
	for (__u32 frame = FIRST; frame + 2 < COUNT; frame++) {
		lay_out(bench);
		words_of(bench, DEPTH)[places[frame + 1] - 1] = CALLER(frame);
		CHECK(!run_learn_stack(bench, DEPTH, NUMBER, COUNT) || places[frame + 1] - 1 == places[frame],
		      "frame %u twice", frame);
		words_of(bench, DEPTH)[places[frame + 1] - 1] = 0;
	}
	/* The end of the stack is near. */
	lay_out(bench);
	CHECK_EQUAL(run_learn_stack(bench, 1, NUMBER, COUNT), 0);
}

void a_walk_beside_a_known_stack(struct bench *bench)
{
	struct kernel_frames *frames = &bench->skeleton->bss->walked_frames;

	learn_one(bench);
	walked(frames);
	CHECK_EQUAL(run_compare_stack(bench, NUMBER, COUNT), 1);
	CHECK_EQUAL(run_compare_stack(bench, NUMBER, COUNT - 1), 0);
	/* Of another program. */
	frames->address[FIRST - 1] = CALLER(99);
	CHECK_EQUAL(run_compare_stack(bench, NUMBER, COUNT), 1);
	for (__u32 frame = FIRST; frame < COUNT; frame++) {
		walked(frames);
		frames->address[frame] = CALLER(99);
		CHECK(!run_compare_stack(bench, NUMBER, COUNT), "frame %u is another", frame);
	}
}
