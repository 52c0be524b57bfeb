/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's stack of a wait.  To walk one takes 15 to 45 us on a busy machine: the kernel looks each function up in
 * tables that other work has driven out of the caches.  Most stacks have been walked before, and where each return
 * address of such a stack lies is known: they are looked for there, which takes 1 to 3.
 *
 * Why a stack is the known one if all these words are the same: the frames of a function have one size.  As far as two
 * stacks have the same callers, the next return address lies at the same place in both, so the first other caller
 * shows.  Where frames have no such size (an interrupt's are aligned) another caller may be missed; so a known stack is
 * walked again at times, and once one was wrong all are walked on that CPU.
 */
#ifndef KNOWN_BPF_H
#define KNOWN_BPF_H

#include "current.bpf.h"
#include "stack.bpf.h"

/* Kernel stacks and those of interrupts are as large, and aligned to it: arch/x86/include/asm/page_64_types.h. */
#define STACK_ALIGNED (16u << 10)
/* Looked at for return addresses: from the program's arguments on. */
#define KNOWN_WORDS 512
/* The first frames of a walk are those of the program and of who called it; they are not in these words. */
#define OWN_FRAMES 8
/* The one behind them is in so many words, or the stack is not where the arguments are. */
#define FIRST_WORDS 24
/* Of the frames on the stack this one is a mark: those before it are the lock's own functions. */
#define MARKED 2

/* arm64 signs return addresses in the bits that all addresses of the kernel have set. */
static __always_inline __u64 return_address(__u64 address)
{
	return kernel_word(address) | 0xffffull << 48;
}

static __always_inline __u64 stack_end(__u64 stack)
{
	return (stack | (STACK_ALIGNED - 1)) + 1;
}

/*
 * 0, of which the verifier does not know it.  Until 6.7 (ab5cfac139ab) it takes what a loop's function is given at first
 * for what it is given each time, and leaves out code that it thinks never runs.
 */
static __always_inline __u32 any_number(__u64 by)
{
	return unknown(0, by);
}

/* A look for the known stack that the words are. */
struct stack_look {
	struct known_stacks *known;
	__u64 stack;
	__u32 number;
	__u32 frame; /* that comes next; 0: the mark */
	__u32 found;
};

/* A system call's first frame has a random size: who called it is found from the end of the stack on. */
static __always_inline bool has_frame(const struct stack_look *look, const struct known_stack *known, __u32 frame)
{
	__u64 address = look->stack + known->words[frame] * sizeof(__u64);

	if (frame + 1 == known->count)
		address = stack_end(look->stack) - known->from_end * sizeof(__u64);
	return return_address(address) == known->frames.address[frame];
}

static long look_at_known(__u32 turn, struct stack_look *look)
{
	__u32 number = look->number & (KNOWN_STACKS - 1), frame = look->frame;
	struct known_stack *known = &look->known->stacks[number];

	if (!frame) {
		if ((__u32)return_address(look->stack + look->known->marks[number].word * sizeof(__u64)) !=
		    look->known->marks[number].address)
			goto next;
		frame = known->first;
	}
	if (frame >= known->count || frame >= STACK_FRAMES || !has_frame(look, known, frame))
		goto next;
	look->frame = frame + 1;
	look->found = frame + 1 == known->count;
	return look->found;
next:
	look->frame = 0;
	return ++look->number >= KNOWN_STACKS;
}

/* Where the frames of a stack that was walked lie. */
struct stack_lesson {
	__u64 stack;
	__u64 last; /* address that was found */
	struct known_stack *known;
	__u32 frame;
	__u32 count;
};

static long learn_word(__u32 word, struct stack_lesson *lesson)
{
	__u64 address = return_address(lesson->stack + word * sizeof(__u64));
	struct known_stack *known = lesson->known;
	__u32 frame = lesson->frame;

	if (!frame) {
		for (__u32 i = 1; i < OWN_FRAMES; i++)
			if (known->frames.address[i] == address)
				known->first = frame = i;
		if (!frame)
			return word >= FIRST_WORDS;
	}
	if (frame >= STACK_FRAMES)
		return 1;
	/*
	 * An address that comes once more before the next one: one of them is stale, and nobody knows which.  Before the last
	 * frame such words are what earlier system calls left in the first frame's room, above the ones that count.
	 */
	if (known->frames.address[frame] != address)
		return address == lesson->last && frame + 1 < lesson->count;
	lesson->last = address;
	known->words[frame] = word;
	lesson->frame = frame + 1;
	return frame + 1 >= lesson->count;
}

/* Whether all frames were found: then their places and the mark are set. */
VERIFIED_ONCE int learn_stack(__u32 cpu, __u32 number, __u64 stack, __u32 count)
{
	struct known_stacks *all = bpf_map_lookup_elem(&known_stacks, &cpu);
	__u64 words = (stack_end(stack) - stack) / sizeof(__u64);
	struct stack_lesson lesson = {
		.stack = stack, .count = count, .frame = any_number(stack), .last = any_number(stack)};
	__u32 last = count - 1, mark;
	struct known_stack *known;

	if (!all)
		return 0;
	number &= KNOWN_STACKS - 1;
	known = &all->stacks[number];
	lesson.known = known;
	known->count = known->uses = 0;
	bpf_loop(words < KNOWN_WORDS ? words : KNOWN_WORDS, learn_word, &lesson, 0);
	if (lesson.frame != count || last >= STACK_FRAMES)
		return 0;
	mark = known->first + MARKED < last ? known->first + MARKED : known->first;
	if (mark >= STACK_FRAMES || mark >= last)
		return 0;
	known->from_end = words - known->words[last];
	known->count = count;
	all->marks[number].address = known->frames.address[mark];
	all->marks[number].word = known->words[mark];
	return 1;
}

/* A stack that was walked beside one that is known. */
struct stack_comparison {
	const struct known_stack *known;
	const struct kernel_frames *frames;
	__u32 differs;
};

static long compare_frame(__u32 frame, struct stack_comparison *comparison)
{
	const struct known_stack *known = comparison->known;

	if (frame >= STACK_FRAMES)
		return 1;
	/* The first ones may be of another program. */
	comparison->differs =
		frame >= known->first && known->frames.address[frame] != comparison->frames->address[frame];
	return comparison->differs;
}

VERIFIED_ONCE int is_known_stack(__u32 cpu, __u32 number, const struct kernel_frames *frames, __u32 count)
{
	struct known_stacks *all = bpf_map_lookup_elem(&known_stacks, &cpu);
	struct stack_comparison comparison = {.frames = frames, .differs = any_number(number)};

	if (!all || !frames)
		return 0;
	comparison.known = &all->stacks[number & (KNOWN_STACKS - 1)];
	bpf_loop(count, compare_frame, &comparison, 0);
	return comparison.known->count == count && !comparison.differs;
}

/* Number plus one of the known stack that is this one; 0: none. */
VERIFIED_ONCE __u32 find_known_stack(__u32 cpu, __u64 stack)
{
	struct stack_look look = {
		.known = bpf_map_lookup_elem(&known_stacks, &cpu),
		.stack = stack,
		.number = any_number(stack),
		.frame = any_number(stack),
		.found = any_number(stack),
	};

	if (!look.known)
		return 0;
	bpf_loop(KNOWN_STACKS * STACK_FRAMES, look_at_known, &look, 0);
	return look.found ? look.number + 1 : 0;
}

#endif /* KNOWN_BPF_H */
