/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks of processes from copies of their top: finds the object that each frame's code is in, and has the naming
 * helper unwind what is in it.  Bounded: the last processes and objects that it met.
 */
#ifndef LOCKLINE_USER_UNWIND_H
#define LOCKLINE_USER_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "naming/naming_client.h"

struct user_unwind;

struct user_stack {
	__u32 tgid;
	__u32 tid;                         /* of a thread that sleeps there, or has just slept; 0: it does not */
	__u32 size;                        /* of the copy */
	bool bare;                         /* of the registers the stack pointer alone is known */
	__u64 program;                     /* another one after an exec; 0: not known */
	__u64 pc;                          /* see unwind_begin() */
	__u64 registers[UNWIND_REGISTERS]; /* likewise */
	__u8 bytes[NAMING_STACK_BYTES];    /* from the stack pointer on */
};

/* NULL: no memory.  The client must outlive it. */
struct user_unwind *user_unwind_open(struct naming_client *client);
void user_unwind_close(struct user_unwind *users);
/* How many frames were found, leaf first, NAMING_FRAMES at most; 0 if the leaf's code does not tell its caller. */
int user_unwind(struct user_unwind *users, const struct user_stack *stack, __u64 *frames);
/* CPU time of this thread and of the helper, which alternate: what a call takes is the difference. */
__u64 user_unwind_cpu_ns(const struct user_unwind *users);

/*
 * The name of a frame of a JVM's code, or of one of its methods, which is read when its stack is unwound: the process
 * may end soon.  meet: also of a process that no stack was unwound of.
 */
bool user_unwind_name(struct user_unwind *users, __u32 tgid, __u64 address, bool meet, char *name, size_t size,
		      __u64 *offset);

/* Monitors of a JVM that threads wait for, at one moment. */
struct monitor_look {
	__u32 tgid;
	struct hotspot_monitors monitors;
};

/* When the next look at a JVM is due whose stacks were unwound just now; 0: at none. */
__u64 user_unwind_look_due(const struct user_unwind *users);
/* Looks at the one that is due longest; false: none is, or it cannot be read. */
bool user_unwind_look(struct user_unwind *users, struct monitor_look *out);

#endif /* LOCKLINE_USER_UNWIND_H */
