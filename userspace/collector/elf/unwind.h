/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One frame of a stack to the next, by the call frame information of an object
 * file (.eh_frame), or by the frame pointer.
 *
 * All that it reads are the frame tables, the registers and the copy of the stack
 * that it is given: no process, no path.  Frame tables are read in the helper
 * alone; a step by the frame pointer reads nothing but the copy.
 */
#ifndef LOCKLINE_UNWIND_H
#define LOCKLINE_UNWIND_H

#include <stdbool.h>
#include <elfutils/libdw.h>
#include <linux/types.h>

/* By DWARF's numbers: x86-64 has 17 of them, arm64 33. */
#define UNWIND_REGISTERS 34

struct unwind_state {
	__u64 pc;
	__u64 registers[UNWIND_REGISTERS];
	__u64 known; /* bits of the registers whose value is known */
};

/* A copy of a stack, from this address on. */
struct unwind_stack {
	__u64 address;
	const __u8 *bytes;
	__u64 size;
};

/* registers: by DWARF's numbers, without the program counter; 16 of x86-64, 32 of arm64. */
void unwind_begin(struct unwind_state *state, __u64 pc, const __u64 *registers);
__u64 unwind_stack_pointer(const struct unwind_state *state);
/* -EFAULT: it is not known. */
int unwind_frame_pointer(const struct unwind_state *state, __u64 *out);
/* -EFAULT: it is not in the copy. */
int unwind_word(const struct unwind_stack *stack, __u64 address, __u64 *out);
/* To a caller of which no more is known; -ENODATA: its frame does not lie behind, or it has no code. */
int unwind_to(struct unwind_state *state, __u64 pc, __u64 stack_pointer, __u64 frame_pointer);
/*
 * To the caller.  address: of state's pc, as the frame table counts.  called: the pc is a return address, and the
 * call lies before it; is set for the next.  -ENOENT: the table does not have this place; -ENODATA: that was
 * the outermost frame; -EFAULT: what the next frame needs is not in the copy.
 */
int unwind_step(Dwarf_CFI *table, __u64 address, struct unwind_state *state, const struct unwind_stack *stack,
		bool *called);
/* Likewise, by the frame pointer: right where the code keeps it. */
int unwind_step_frame_pointer(struct unwind_state *state, const struct unwind_stack *stack, bool *called);

#endif /* LOCKLINE_UNWIND_H */
