/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The objects that the naming helper has open, by elfutils.  Runs in the helper alone: see naming_helper.c. */
#ifndef LOCKLINE_NAMING_OBJECTS_H
#define LOCKLINE_NAMING_OBJECTS_H

#include <stdbool.h>
#include <elfutils/libdwfl.h>

#include "elf/unwind.h"
#include "helper/naming_protocol.h"

/*
 * Opens the object of a place, which takes the descriptor; -1: the vDSO of this
 * process, which all processes of its word size have.  -ENOEXEC: it is no ELF file.
 */
int naming_object_open(__u32 place, int fd, struct naming_answer *answer);
/* A file of names of code that was made at run time, instead of an object; takes the descriptor. */
int naming_object_open_map(__u32 place, int fd);
/* Takes the descriptor of a debug file. */
int naming_object_debug(__u32 place, int fd);
void naming_object_close(__u32 place);

/* NULL: nothing is open there.  For what reads more of an object than its symbols. */
Dwfl_Module *naming_object_module(__u32 place);
/* An address of the module, as libdwfl counts it; -ERANGE: in none of its segments. */
int naming_object_address(__u32 object, const struct naming_place *place, GElf_Addr *out);

int naming_object_symbol(__u32 object, const struct naming_place *place, struct naming_answer *answer);
/* -ENOENT: no symbol is there. */
int naming_object_at(__u32 object, __u64 file_offset, bool variable, struct naming_answer *answer);
/* What came of a stack, and how many of its frames are wanted, whatever was asked for. */
static inline struct unwind_stack naming_stack_bytes(const struct naming_stack *from)
{
	return (struct unwind_stack){
		.address = from->address,
		.bytes = from->bytes,
		.size = from->size < NAMING_STACK_BYTES ? from->size : NAMING_STACK_BYTES,
	};
}

static inline __u32 naming_stack_most(const struct naming_stack *from)
{
	return from->most < NAMING_FRAMES ? from->most : NAMING_FRAMES;
}

/* Frames of a stack as long as their code is in the object; -ENOENT: its leaf's code is not in a frame table. */
int naming_object_unwind(__u32 object, const struct naming_stack *stack, struct naming_frames *frames);
int naming_object_find(__u32 object, __u64 file_offset, const char *name, struct naming_answer *answer);

#endif /* LOCKLINE_NAMING_OBJECTS_H */
