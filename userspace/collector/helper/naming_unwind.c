// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "helper/naming_objects.h"

static int step(__u32 object, const struct naming_stack *from, struct unwind_state *state,
		const struct unwind_stack *stack, bool *called)
{
	const struct naming_place place = {from->file_offset, state->pc - from->start};
	GElf_Addr address, bias = 0;
	Dwarf_CFI *table;
	int err = naming_object_address(object, &place, &address);

	if (err)
		return -ENOENT;
	table = dwfl_module_eh_cfi(naming_object_module(object), &bias);
	return table ? unwind_step(table, address - bias, state, stack, called) : -ENOENT;
}

int naming_object_unwind(__u32 object, const struct naming_stack *from, struct naming_frames *frames)
{
	const struct unwind_stack stack = naming_stack_bytes(from);
	const __u32 most = naming_stack_most(from);
	struct unwind_state state = from->state;
	bool called = from->called;
	int err = 0;

	frames->count = 0;
	while (!err && frames->count < most && state.pc >= from->start && state.pc < from->end) {
		frames->pc[frames->count++] = state.pc;
		err = step(object, from, &state, &stack, &called);
		if (err == -ENOENT && from->leaf && frames->count == 1)
			return err;
		if (err == -ENOENT)
			err = unwind_step_frame_pointer(&state, &stack, &called);
	}
	frames->state = state;
	frames->called = called;
	frames->end = err;
	return 0;
}
