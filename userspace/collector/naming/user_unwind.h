/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks of processes from copies of their top: finds the object that each frame's code is in, and has
 * naming/unwind.h take the step.  Bounded: the last processes and objects that it met.
 */
#ifndef LOCKLINE_USER_UNWIND_H
#define LOCKLINE_USER_UNWIND_H

#include <linux/types.h>

struct user_unwind;

/* NULL: no memory. */
struct user_unwind *user_unwind_open(void);
void user_unwind_close(struct user_unwind *users);
/* pc, registers: see unwind_begin().  How many frames were found, leaf first; 0 if the leaf's code says nothing of its caller. */
int user_unwind(struct user_unwind *users, __u32 tgid, __u64 pc, const __u64 *registers, const void *stack,
		__u64 stack_bytes, __u64 *frames, int max);

#endif /* LOCKLINE_USER_UNWIND_H */
