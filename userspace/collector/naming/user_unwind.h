/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks of processes from copies of their top: finds the object that each frame's code is in, and has the naming
 * helper unwind what is in it.  Bounded: the last processes and objects that it met.
 */
#ifndef LOCKLINE_USER_UNWIND_H
#define LOCKLINE_USER_UNWIND_H

#include <linux/types.h>

#include "naming/naming_client.h"

struct user_unwind;

struct user_stack {
	__u32 tgid;
	__u32 size;                        /* of the copy */
	__u64 pc;                          /* see unwind_begin() */
	__u64 registers[UNWIND_REGISTERS]; /* likewise */
	__u8 bytes[NAMING_STACK_BYTES];    /* from the stack pointer on */
};

/* NULL: no memory.  The client must outlive it. */
struct user_unwind *user_unwind_open(struct naming_client *client);
void user_unwind_close(struct user_unwind *users);
/* How many frames were found, leaf first, NAMING_FRAMES at most; 0 if the leaf's code does not tell its caller. */
int user_unwind(struct user_unwind *users, const struct user_stack *stack, __u64 *frames);

#endif /* LOCKLINE_USER_UNWIND_H */
