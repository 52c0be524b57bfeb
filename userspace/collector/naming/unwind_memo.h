/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks that were unwound, to be known again.  A program waits in the same places again and again, and each frame
 * costs a question to the naming helper.  A stack is known if it begins at the same code and has the same return
 * addresses in the same places: each tells where the next one is, as long as its code finds its frame by the stack
 * pointer.  Code that keeps a frame pointer could lead elsewhere; then all places would have to hold what calls of the
 * same depth left there.  A method that a compiler put into its caller has no place of its own.
 *
 * What forks of one program have in common is known once for all of them: their code is at the same addresses.
 */
#ifndef LOCKLINE_UNWIND_MEMO_H
#define LOCKLINE_UNWIND_MEMO_H

#include <linux/types.h>

#include "helper/naming_protocol.h"

#define UNWIND_MEMOS    256
#define UNWIND_NO_PLACE 0xffff
/* A stack with a frame that was guessed, or of code that a JVM made, is unwound anew after this, any other one later. */
#define UNWIND_GUESSED_NS 10000000000ull
#define UNWIND_MEMO_NS    60000000000ull

/* A copy of the top of a thread's stack. */
struct memo_stack {
	__u32 tgid;
	__u32 size;
	__u64 program; /* of struct user_stack */
	__u64 layout;  /* of the process's code: equal where files and addresses are; 0: not known */
	__u64 pc;
	const __u8 *bytes;
};

struct unwind_memo {
	__u32 tgid;
	__u32 count; /* of frames; 0: free */
	__u64 program;
	__u64 layout;
	__u64 until_ns;
	__u64 used;
	__u64 frames[NAMING_FRAMES];
	__u16 places[NAMING_FRAMES]; /* of the return address in the copy; [0]: none, the leaf is where pc is */
};

struct unwind_memos {
	struct unwind_memo list[UNWIND_MEMOS];
	__u64 uses;
};

/* The frames of a stack like this one, leaf first; 0: none is known. */
int unwind_memo_find(struct unwind_memos *memos, const struct memo_stack *stack, __u64 now_ns, __u64 *frames);
/* Keeps what was found, if all return addresses lie in the copy; inlined: bits of the frames that have none. */
void unwind_memo_keep(struct unwind_memos *memos, const struct memo_stack *stack, __u64 until_ns, const __u64 *frames,
		      int count, __u32 inlined);

#endif /* LOCKLINE_UNWIND_MEMO_H */
