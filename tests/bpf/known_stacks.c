// SPDX-License-Identifier: GPL-2.0-or-later
/* Stacks that are known from walks before: what is taken for known, and what is not. */
#include "wait_test.h"

#include <string.h>

#define FIRST 3
#define COUNT 8
#define FOUND (COUNT - FIRST)
#define DEPTH 300 /* words from a program's arguments to the end */
#define MOST  STACK_FRAMES

/* Of a function that called another: as of the kernel's text. */
#define CALLER(n) (0xffffffff81000000ull + (n)*0x40ull)

/* Frames before FIRST are the program's own, and are not on the stack.  The last one lies next to its end. */
static const __u32 places[COUNT] = {0, 0, 0, 7, 13, 14, 60, DEPTH - 22};

static __u64 *words_of(struct bench *bench, __u32 depth)
{
	return bench->skeleton->bss->stack_words + bench->skeleton->bss->stack_end_word - depth;
}

static void clear_stack(struct bench *bench)
{
	memset(bench->skeleton->bss->stack_words, 0, sizeof(bench->skeleton->bss->stack_words));
}

/* Puts the callers where they lie; the last one stays at the end, however deep the stack is. */
static void lay_out(struct bench *bench, __u32 depth)
{
	clear_stack(bench);
	for (__u32 frame = FIRST; frame < COUNT; frame++)
		words_of(bench, depth)[places[frame] + (frame + 1 == COUNT ? depth - DEPTH : 0)] = CALLER(frame);
}

static void set_walked(struct bench *bench)
{
	for (__u32 frame = 0; frame < COUNT; frame++)
		bench->skeleton->bss->walked_frames.address[frame] = CALLER(frame);
}

/* The program's own frames, as it was learned. */
static __u32 learn_one(struct bench *bench, __u32 depth)
{
	run_place_stack(bench);
	lay_out(bench, depth);
	set_walked(bench);
	return run_learn_stack(bench, depth, COUNT);
}

static void forget(struct bench *bench)
{
	__u32 none = 0;
	static const struct stack_steps empty;

	bpf_map__update_elem(bench->skeleton->maps.stack_steps, &none, sizeof(none), &empty, sizeof(empty), 0);
}

void a_walked_stack_is_known(struct bench *bench)
{
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), 0);
	CHECK_EQUAL(learn_one(bench, DEPTH), FIRST);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
	for (__u32 frame = 0; frame < FOUND; frame++)
		CHECK_EQUAL(bench->skeleton->bss->found_frames.address[frame], CALLER(FIRST + frame));
	/* As many as are asked for. */
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, FOUND - 2), FOUND - 2);
	/* Words between the return addresses are data. */
	words_of(bench, DEPTH)[20] = CALLER(99);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
	/* arm64 signs them. */
	words_of(bench, DEPTH)[13] &= ~(0x7full << 48);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
}

void another_caller_is_another_stack(struct bench *bench)
{
	for (__u32 frame = FIRST; frame < COUNT; frame++) {
		learn_one(bench, DEPTH);
		words_of(bench, DEPTH)[places[frame]] = CALLER(99);
		CHECK(!run_follow_stack(bench, DEPTH, MOST), "frame %u is another", frame);
		/* Also if it is a caller of another function. */
		words_of(bench, DEPTH)[places[frame]] = CALLER(frame == FIRST ? COUNT - 1 : FIRST);
		CHECK(!run_follow_stack(bench, DEPTH, MOST), "frame %u is another one's", frame);
	}
}

/* The first frame of a system call has a random size: its caller is found from the end on, once two sizes were seen. */
void a_first_frame_has_any_size(struct bench *bench)
{
	learn_one(bench, DEPTH);
	lay_out(bench, DEPTH + 18);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH + 18, MOST), 0);
	learn_one(bench, DEPTH + 18);
	for (__u32 more = 0; more < 64; more++) {
		lay_out(bench, DEPTH + more);
		CHECK(run_follow_stack(bench, DEPTH + more, MOST) == FOUND, "%u words more", more);
	}
	/* Another frame that grows makes another stack. */
	words_of(bench, DEPTH + 63)[places[COUNT - 2]] = 0;
	words_of(bench, DEPTH + 63)[places[COUNT - 2] + 1] = CALLER(COUNT - 2);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH + 63, MOST), 0);
}

/* One that was never walked, whose parts were. */
void steps_of_two_stacks_make_a_third(struct bench *bench)
{
	struct kernel_frames *walked = &bench->skeleton->bss->walked_frames;
	__u64 *words;

	learn_one(bench, DEPTH);
	words = words_of(bench, DEPTH);
	/* The same function of CALLER(FIRST + 1) is called by another one, and calls another one. */
	words[places[FIRST]] = walked->address[FIRST] = CALLER(50);
	words[places[FIRST + 2]] = walked->address[FIRST + 2] = CALLER(52);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), 0);
	run_learn_stack(bench, DEPTH, COUNT);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
	words[places[FIRST]] = CALLER(FIRST);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
	CHECK_EQUAL(bench->skeleton->bss->found_frames.address[0], CALLER(FIRST));
	CHECK_EQUAL(bench->skeleton->bss->found_frames.address[2], CALLER(52));
}

/* Earlier calls leave their return addresses in later ones' frames. */
void stale_words_are_outvoted(struct bench *bench)
{
	__u32 stale = places[COUNT - 2] - 9;

	/* Met first, it is taken for the one that counts. */
	run_place_stack(bench);
	lay_out(bench, DEPTH);
	words_of(bench, DEPTH)[stale] = CALLER(COUNT - 2);
	set_walked(bench);
	run_learn_stack(bench, DEPTH, COUNT);
	lay_out(bench, DEPTH);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), 0);
	for (int walk = 0; walk < 4 && !run_follow_stack(bench, DEPTH, MOST); walk++)
		learn_one(bench, DEPTH);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
	/* Once the right place is known, one on the way to it is passed over. */
	for (int walk = 0; walk < 8; walk++) {
		words_of(bench, DEPTH)[stale] = CALLER(COUNT - 2);
		run_learn_stack(bench, DEPTH, COUNT);
	}
	lay_out(bench, DEPTH);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
}

/* What interrupts the kernel has the same last caller as what interrupts a program, and more behind it. */
void a_last_frame_lies_at_the_end(struct bench *bench)
{
	__u32 deeper = DEPTH + 40;

	learn_one(bench, DEPTH);
	clear_stack(bench);
	for (__u32 frame = FIRST; frame < COUNT; frame++)
		words_of(bench, deeper)[places[frame]] = CALLER(frame);
	CHECK_EQUAL(run_follow_stack(bench, deeper, MOST), 0);
}

/* Several programs of a tracepoint are called by a function of their own, one alone is not. */
void the_first_caller_has_its_place(struct bench *bench)
{
	learn_one(bench, DEPTH);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH, MOST), FOUND);
	words_of(bench, DEPTH + 6)[places[FIRST]] = CALLER(70);
	CHECK_EQUAL(run_follow_stack(bench, DEPTH + 6, MOST), 0);
}

void a_stack_with_a_missing_frame_is_not_known(struct bench *bench)
{
	/* The first one is where the program was called from: it is always there. */
	for (__u32 frame = FIRST + 1; frame < COUNT; frame++) {
		forget(bench);
		run_place_stack(bench);
		lay_out(bench, DEPTH);
		words_of(bench, DEPTH)[places[frame]] = 0;
		set_walked(bench);
		run_learn_stack(bench, DEPTH, COUNT);
		CHECK(!run_follow_stack(bench, DEPTH, MOST), "without frame %u", frame);
		lay_out(bench, DEPTH);
		CHECK(!run_follow_stack(bench, DEPTH, MOST), "learned without frame %u", frame);
	}
	/* The end of the stack is near. */
	CHECK_EQUAL(run_learn_stack(bench, 1, COUNT), 0);
}

void a_walk_beside_a_known_stack(struct bench *bench)
{
	struct kernel_frames *walked = &bench->skeleton->bss->walked_frames;

	learn_one(bench, DEPTH);
	run_follow_stack(bench, DEPTH, MOST);
	CHECK_EQUAL(run_sum_of_walk(bench, FIRST, COUNT), 1);
	CHECK_EQUAL(run_sum_of_walk(bench, FIRST, COUNT - 1), 0);
	/* Of another program. */
	walked->address[FIRST - 1] = CALLER(99);
	CHECK_EQUAL(run_sum_of_walk(bench, FIRST, COUNT), 1);
	for (__u32 frame = FIRST; frame < COUNT; frame++) {
		set_walked(bench);
		walked->address[frame] = CALLER(99);
		CHECK(!run_sum_of_walk(bench, FIRST, COUNT), "frame %u is another", frame);
	}
}

/* They are walked, and teach nothing: they end elsewhere. */
void a_stack_of_an_interrupt_is_no_tasks(struct bench *bench)
{
	CHECK_EQUAL(run_on_task_stack(bench, 0), 3);
	CHECK_EQUAL(run_on_task_stack(bench, STACK_ALIGNED), 1);
}
