/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's stack of a wait.  To walk one takes 15 to 60 us on a busy machine: the kernel looks each function up in
 * tables that other work has driven out of the caches.  But at one place in its code a function's frame has one size:
 * the next return address is as far from that one as it was before.  Walked stacks teach these steps, and a stack whose
 * steps are all known is followed from one return address to the next, which takes 1 to 3 us.
 *
 * A step is known of a return address and of where the called function called on, so each word that is met must be one
 * that has called that function before: a stale word is no step, and another caller shows.  A system call's first frame
 * has a random size: what lies next to the end of the stack may be found from there.  Frames of interrupts are aligned
 * and may be missed; so a known stack is walked all the same once in a while, and once one was wrong all are walked.
 */
#ifndef KNOWN_BPF_H
#define KNOWN_BPF_H

#include "current.bpf.h"
#include "stack.bpf.h"

/* Looked at for return addresses: from the program's arguments on. */
#define KNOWN_WORDS 512
/* The first frames of a walk are those of the program and of who called it; they are not in these words. */
#define OWN_FRAMES 10
/* The one behind them is in so many words, or the stack is not where the arguments are. */
#define FIRST_WORDS 32
/* A step from the end leads to one of the last so many words: an entry's registers, and a few frames (arm64). */
#define END_WORDS 96

/* The lower 16 bits of an entry: a mode and a number of words. */
#define STEP_WORDS 0x07ffu
#define STEP_AGAIN 0x0800u /* so often walks agreed, after those that did not are taken off */
#define STEP_SURE  0x1800u
#define STEP_MODE  0xc000u
/* Where the next return address is: */
#define STEP_NONE     0x0000u /* not known; */
#define STEP_FORTH    0x4000u /* so many words on; */
#define STEP_FROM_END 0x8000u /* so many words before the end of the stack; */
#define STEP_LAST     0xc000u /* nowhere: this one is the last, so many words before the end. */

/* arm64 signs return addresses in the bits that all addresses of the kernel have set. */
static __always_inline __u64 return_address(__u64 address)
{
	return kernel_word(address) | 0xffffull << 48;
}

static __always_inline __u64 return_address_at(__u64 stack, __u32 word)
{
	return return_address(stack + word * sizeof(__u64));
}

static __always_inline __u64 stack_end(__u64 stack)
{
	return (stack | (STACK_ALIGNED - 1)) + 1;
}

static __always_inline __u32 words_to_end(__u64 stack)
{
	return (stack_end(stack) - stack) / sizeof(__u64);
}

/*
 * 0, of which the verifier does not know it.  Until 6.7 (ab5cfac139ab) it takes what a loop's function is given at first
 * for what it is given each time, and leaves out code that it thinks never runs.
 */
static __always_inline __u32 any_number(__u64 by)
{
	return unknown(0, by);
}

/* 0 if there is none.  In one register from the look at its bounds on, for older verifiers. */
static __always_inline __u64 frame_address(const struct kernel_frames *frames, __u32 frame)
{
	__u64 at = frame;

	barrier_var(at);
	return at < STACK_FRAMES ? frames->address[at] : 0;
}

/*
 * The upper 48 bits.  callee: the return address before this one on the stack.  Of the first one its word: whether the
 * kernel calls the only program of a tracepoint directly, or several by a function, makes another one the first.
 */
static __always_inline __u64 step_key(__u64 callee, __u64 address)
{
	return (callee * 0x9e3779b97f4a7c15ull + address) * 0xff51afd7ed558ccdull & ~0xffffull;
}

static __always_inline __u32 step_home(__u64 key)
{
	return key >> 32 & (STACK_STEPS - 1);
}

static __always_inline bool has_key(__u64 entry, __u64 key)
{
	return !((entry ^ key) >> 16);
}

/* The entry of a key; 0: none. */
static __always_inline __u64 find_step(const struct stack_steps *steps, __u64 key)
{
	__u32 home = step_home(key);
	__u64 entry = steps->entry[home];

	if (has_key(entry, key))
		return entry;
	entry = steps->entry[(home ^ 1) & (STACK_STEPS - 1)];
	return has_key(entry, key) ? entry : 0;
}

/* Whole words: a reader on another CPU sees the one or the other. */
static __always_inline void set_step(struct stack_steps *steps, __u64 key, __u32 step)
{
	__u32 home = step_home(key), other = (home ^ 1) & (STACK_STEPS - 1);
	__u64 there = steps->entry[home], beside = steps->entry[other];

	if (!has_key(there, key) && (has_key(beside, key) || (there && !beside)))
		home = other;
	*(volatile __u64 *)&steps->entry[home] = key | step;
}

/*
 * What is known of a key and what a walk found of it: step, or, of the same place, from_end.  What is found more often is
 * kept, as a walk may take a stale word for a return address.
 */
static __always_inline __u32 joined_steps(__u32 known, __u32 step, __u32 from_end)
{
	__u32 place = known & (STEP_MODE | STEP_WORDS);

	if (step == STEP_NONE)
		return known;
	if (place == step || place == from_end)
		return (known & STEP_SURE) == STEP_SURE ? known : known + STEP_AGAIN;
	if (known & STEP_SURE)
		return known - STEP_AGAIN;
	return (known & STEP_MODE) == STEP_FORTH ? from_end : step;
}

/* entry: what is known. */
static __always_inline void learn_step(struct stack_steps *steps, __u64 key, __u64 entry, __u32 step, __u32 from_end)
{
	__u32 joined = joined_steps(entry & 0xffff, step, from_end);

	if (!entry || joined != (entry & 0xffff))
		set_step(steps, key, joined);
}

/* The next word with a return address, as an entry has it; 0: it does not tell.  words: to the end of the stack. */
static __always_inline __u32 next_word(__u64 entry, __u32 word, __u32 words)
{
	__u32 mode = entry & STEP_MODE, step = entry & STEP_WORDS;

	if (mode == STEP_FORTH)
		return word + step;
	return mode == STEP_FROM_END && step < words ? words - step : 0;
}

/* A stack that was walked, from whose words the places of its return addresses are learned. */
struct stack_lesson {
	struct stack_steps *steps;
	struct kernel_frames *walked;
	__u64 stack;
	__u64 key;   /* of the last frame that was found, */
	__u64 entry; /* what is known of it, */
	__u32 place; /* and its word */
	__u32 next;  /* one's word, as other stacks had it; 0: not known */
	__u32 frame; /* that is looked for */
	__u32 own;   /* frames of the program, which are not on the stack */
	__u32 first; /* word behind the first of the others */
	__u32 count;
	__u32 words; /* to the end of the stack */
};

static __always_inline void found_frame(struct stack_lesson *lesson, __u64 callee, __u64 address, __u32 word)
{
	lesson->place = word;
	lesson->key = step_key(callee, address);
	lesson->entry = find_step(lesson->steps, lesson->key);
	lesson->next = next_word(lesson->entry, word, lesson->words);
	lesson->frame++;
}

/* The first caller that lies on the stack: of the program's own frames none does, but for stale words. */
static long look_for_first(__u32 turn, struct stack_lesson *lesson)
{
	__u32 word = turn & (FIRST_WORDS - 1), frame = 1 + turn / FIRST_WORDS;
	__u64 address = return_address_at(lesson->stack, word);

	if (frame_address(lesson->walked, frame) != address)
		return 0;
	lesson->own = lesson->frame = frame;
	found_frame(lesson, word, address, word);
	return 1;
}

static long learn_word(__u32 words, struct stack_lesson *lesson)
{
	__u32 word = lesson->first + words, frame = lesson->frame, step, from_end;
	__u64 address = return_address_at(lesson->stack, word);

	if (word >= lesson->words)
		return 1;
	if (frame_address(lesson->walked, frame) != address)
		return 0;
	/* Earlier calls left words of the same value. */
	if (lesson->next > word && lesson->next < lesson->words &&
	    return_address_at(lesson->stack, lesson->next) == address)
		return 0;
	step = STEP_FORTH | (word - lesson->place & STEP_WORDS);
	from_end = lesson->words - word;
	from_end = from_end <= END_WORDS ? STEP_FROM_END | from_end : step;
	learn_step(lesson->steps, lesson->key, lesson->entry, step, from_end);
	found_frame(lesson, frame_address(lesson->walked, frame - 1), address, word);
	return lesson->frame >= lesson->count;
}

/* Of a walk that was cut it is not known. */
static __always_inline void learn_last(const struct stack_lesson *lesson)
{
	__u32 step =
		lesson->count < STACK_FRAMES ? STEP_LAST | (lesson->words - lesson->place & STEP_WORDS) : STEP_NONE;

	learn_step(lesson->steps, lesson->key, lesson->entry, step, step);
}

/* Frames of a walk that are the program's own; 0: not found. */
VERIFIED_ONCE __u32 learn_stack(struct kernel_frames *walked, __u64 stack, __u32 count)
{
	__u32 words = words_to_end(stack), none = 0;
	struct stack_lesson lesson = {
		.steps = bpf_map_lookup_elem(&stack_steps, &none),
		.walked = walked,
		.stack = stack,
		.count = count,
		.words = words,
		.key = any_number(stack),
		.entry = any_number(stack),
		.place = any_number(stack),
		.next = any_number(stack),
		.frame = any_number(stack),
		.own = any_number(stack),
	};

	if (!lesson.steps || !walked)
		return 0;
	bpf_loop((OWN_FRAMES - 1) * FIRST_WORDS, look_for_first, &lesson, 0);
	lesson.first = lesson.place + 1;
	if (lesson.own)
		bpf_loop(KNOWN_WORDS, learn_word, &lesson, 0);
	if (lesson.own && lesson.frame == count)
		learn_last(&lesson);
	return lesson.own;
}

/* A stack that is followed. */
struct stack_look {
	const struct stack_steps *steps;
	struct kernel_frames *found;
	__u64 stack;
	__u64 sum; /* of the addresses, in their order */
	__u64 callee;
	__u32 word;
	__u32 words; /* to the end of the stack */
	__u32 most;  /* frames */
	__u32 count;
	__u32 all; /* frames were found */
};

static __always_inline __u64 add_to_sum(__u64 sum, __u64 address)
{
	return (sum ^ address) * 0x9e3779b97f4a7c15ull;
}

static long follow_step(__u32 turn, struct stack_look *look)
{
	__u64 address = return_address_at(look->stack, look->word);
	__u64 entry = find_step(look->steps, step_key(look->callee, address));
	__u64 count = look->count;
	__u32 next;

	/* As in frame_address(). */
	barrier_var(count);
	if (!entry || count >= STACK_FRAMES)
		return 1;
	look->found->address[count++] = address;
	look->count = count;
	look->sum = add_to_sum(look->sum, address);
	look->callee = address;
	if (count >= look->most || (entry & (STEP_MODE | STEP_WORDS)) == (STEP_LAST | look->words - look->word)) {
		look->all = 1;
		return 1;
	}
	next = next_word(entry, look->word, look->words);
	if (next <= look->word || next >= look->words)
		return 1;
	look->word = next;
	return 0;
}

/* The first return address, near a program's arguments. */
static long look_at_word(__u32 turn, struct stack_look *look)
{
	/* Where it was before, first. */
	__u32 word = turn ? turn - 1 : look->word;

	if (!find_step(look->steps, step_key(word, return_address_at(look->stack, word))))
		return 0;
	look->word = word;
	look->all = 1;
	return 1;
}

/* Frames of the stack, at most so many; 0: it is not known.  sum: of them, as sum_of_walk() has it. */
VERIFIED_ONCE __u32 follow_stack(struct cpu_state *state, struct kernel_frames *found, __u64 stack, __u32 most,
				 __u64 *sum)
{
	__u32 none = 0;
	struct stack_look look = {
		.steps = bpf_map_lookup_elem(&stack_steps, &none),
		.found = found,
		.stack = stack,
		.words = words_to_end(stack),
		.most = most,
		.sum = any_number(stack),
		.callee = any_number(stack),
		.count = any_number(stack),
		.all = any_number(stack),
	};

	if (!look.steps || !state || !found || !sum)
		return 0;
	look.word = state->first_word;
	bpf_loop(FIRST_WORDS, look_at_word, &look, 0);
	if (!look.all)
		return 0;
	state->first_word = look.word;
	look.callee = look.word;
	look.all = any_number(stack);
	bpf_loop(STACK_FRAMES, follow_step, &look, 0);
	*sum = look.sum;
	return look.all ? look.count : 0;
}

struct walk_sum {
	const struct kernel_frames *walked;
	__u64 sum;
	__u32 own;
};

static long sum_frame(__u32 frame, struct walk_sum *sum)
{
	if (frame >= sum->own)
		sum->sum = add_to_sum(sum->sum, frame_address(sum->walked, frame));
	return 0;
}

/* Of the frames behind the program's own. */
VERIFIED_ONCE __u64 sum_of_walk(const struct kernel_frames *walked, __u32 own, __u32 count)
{
	struct walk_sum sum = {.walked = walked, .own = own, .sum = any_number(count)};

	if (!walked)
		return 0;
	bpf_loop(count, sum_frame, &sum, 0);
	return sum.sum;
}

#endif /* KNOWN_BPF_H */
