// SPDX-License-Identifier: GPL-2.0-or-later
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/unwind.h"

#if defined(__x86_64__)
#define GIVEN         16
#define COLUMNS       17
#define FRAME_POINTER 6
#define STACK_POINTER 7
#define RETURN        16
#else
#define GIVEN         32
#define COLUMNS       33
#define FRAME_POINTER 29
#define STACK_POINTER 31
#define RETURN        30
#endif
/* What pointer authentication adds on arm64 is cut off. */
#define ADDRESS_MASK ((1ull << 56) - 1)

#define OPERANDS 16

void unwind_begin(struct unwind_state *state, __u64 pc, const __u64 *registers)
{
	*state = (struct unwind_state){.pc = pc, .known = (1ull << GIVEN) - 1};
	memcpy(state->registers, registers, GIVEN * sizeof(*registers));
}

__u64 unwind_stack_pointer(const struct unwind_state *state)
{
	return state->registers[STACK_POINTER];
}

int unwind_frame_pointer(const struct unwind_state *state, __u64 *out)
{
	*out = state->registers[FRAME_POINTER];
	return state->known >> FRAME_POINTER & 1 ? 0 : -EFAULT;
}

int unwind_word(const struct unwind_stack *stack, __u64 address, __u64 *out)
{
	if (address < stack->address || stack->size < sizeof(*out) ||
	    address - stack->address > stack->size - sizeof(*out))
		return -EFAULT;
	memcpy(out, stack->bytes + (address - stack->address), sizeof(*out));
	return 0;
}

static int register_of(const struct unwind_state *state, __u64 number, __u64 *out)
{
	/* The return address of the frame itself is where it is. */
	if (number == RETURN && RETURN == 16) {
		*out = state->pc;
		return 0;
	}
	if (number >= COLUMNS || !(state->known >> number & 1))
		return -EFAULT;
	*out = state->registers[number];
	return 0;
}

struct machine {
	__u64 operands[OPERANDS];
	int count;
	bool value; /* the result is the value itself, not where it is */
};

static int push(struct machine *machine, __u64 value)
{
	if (machine->count == OPERANDS)
		return -ENOSPC;
	machine->operands[machine->count++] = value;
	return 0;
}

static int two(struct machine *machine, __u8 atom)
{
	__u64 right, left;

	if (machine->count < 2)
		return -EINVAL;
	right = machine->operands[--machine->count];
	left = machine->operands[--machine->count];
	switch (atom) {
	case DW_OP_plus:
		return push(machine, left + right);
	case DW_OP_minus:
		return push(machine, left - right);
	case DW_OP_mul:
		return push(machine, left * right);
	case DW_OP_and:
		return push(machine, left & right);
	case DW_OP_or:
		return push(machine, left | right);
	case DW_OP_shl:
		return push(machine, right < 64 ? left << right : 0);
	case DW_OP_shr:
		return push(machine, right < 64 ? left >> right : 0);
	case DW_OP_eq:
		return push(machine, left == right);
	case DW_OP_ne:
		return push(machine, left != right);
	case DW_OP_ge:
		return push(machine, (__s64)left >= (__s64)right);
	case DW_OP_gt:
		return push(machine, (__s64)left > (__s64)right);
	case DW_OP_le:
		return push(machine, (__s64)left <= (__s64)right);
	case DW_OP_lt:
		return push(machine, (__s64)left < (__s64)right);
	}
	return -EOPNOTSUPP;
}

/* The operations that call frame information is made of; cfa NULL while it is being found. */
static int operate(struct machine *machine, const Dwarf_Op *op, const struct unwind_state *state,
		   const struct unwind_stack *stack, const __u64 *cfa)
{
	__u64 value = 0;
	int err;

	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(machine, op->atom - DW_OP_lit0);
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return register_of(state, op->atom - DW_OP_breg0, &value) ?: push(machine, value + op->number);
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
		machine->value = true;
		return register_of(state, op->atom - DW_OP_reg0, &value) ?: push(machine, value);
	}
	switch (op->atom) {
	case DW_OP_nop:
		return 0;
	case DW_OP_bregx:
		return register_of(state, op->number, &value) ?: push(machine, value + op->number2);
	case DW_OP_regx:
		machine->value = true;
		return register_of(state, op->number, &value) ?: push(machine, value);
	case DW_OP_call_frame_cfa:
		return cfa ? push(machine, *cfa) : -EINVAL;
	case DW_OP_stack_value:
		machine->value = true;
		return 0;
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		return push(machine, op->number);
	case DW_OP_dup:
		return machine->count ? push(machine, machine->operands[machine->count - 1]) : -EINVAL;
	case DW_OP_plus_uconst:
	case DW_OP_deref:
		if (!machine->count)
			return -EINVAL;
		value = machine->operands[--machine->count];
		if (op->atom == DW_OP_plus_uconst)
			return push(machine, value + op->number);
		err = unwind_word(stack, value, &value);
		return err ?: push(machine, value);
	}
	return two(machine, op->atom);
}

static int evaluate(const Dwarf_Op *ops, size_t count, const struct unwind_state *state,
		    const struct unwind_stack *stack, const __u64 *cfa, struct machine *machine)
{
	int err = 0;

	*machine = (struct machine){};
	for (size_t i = 0; !err && i < count; i++)
		err = operate(machine, &ops[i], state, stack, cfa);
	return err ?: machine->count ? 0 : -EINVAL;
}

static int caller_register(Dwarf_Frame *frame, int number, const struct unwind_state *state,
			   const struct unwind_stack *stack, const __u64 *cfa, __u64 *out)
{
	Dwarf_Op memory[3], *ops;
	struct machine machine;
	size_t count;
	int err;

	if (dwarf_frame_register(frame, number, memory, &ops, &count))
		return -EINVAL;
	if (!count)
		return ops ? -ENODATA : register_of(state, number, out);
	err = evaluate(ops, count, state, stack, cfa, &machine);
	if (err)
		return err;
	*out = machine.operands[machine.count - 1];
	return machine.value ? 0 : unwind_word(stack, *out, out);
}

static int to_caller(Dwarf_Frame *frame, struct unwind_state *state, const struct unwind_stack *stack)
{
	struct unwind_state caller = {};
	struct machine machine;
	Dwarf_Op *ops;
	size_t count;
	__u64 cfa;
	int err;

	if (dwarf_frame_cfa(frame, &ops, &count) || !count)
		return -ENOENT;
	err = evaluate(ops, count, state, stack, NULL, &machine);
	if (err)
		return err;
	cfa = machine.operands[machine.count - 1];
	for (int i = 0; i < COLUMNS; i++)
		if (!caller_register(frame, i, state, stack, &cfa, &caller.registers[i]))
			caller.known |= 1ull << i;
	caller.registers[STACK_POINTER] = cfa;
	caller.known |= 1ull << STACK_POINTER;
	err = caller_register(frame, dwarf_frame_info(frame, NULL, NULL, NULL), state, stack, &cfa, &caller.pc);
	if (err)
		return err;
	caller.pc &= ADDRESS_MASK;
	/* A stack grows towards its begin: a caller's frame lies behind. */
	if (!caller.pc || cfa < state->registers[STACK_POINTER])
		return -ENODATA;
	*state = caller;
	return 0;
}

int unwind_step(Dwarf_CFI *table, __u64 address, struct unwind_state *state, const struct unwind_stack *stack,
		bool *called)
{
	Dwarf_Frame *frame;
	bool signal = false;
	int err;

	if (dwarf_cfi_addrframe(table, address - *called, &frame))
		return -ENOENT;
	dwarf_frame_info(frame, NULL, NULL, &signal);
	err = to_caller(frame, state, stack);
	free(frame);
	*called = !signal;
	return err;
}

int unwind_to(struct unwind_state *state, __u64 pc, __u64 stack_pointer, __u64 frame_pointer)
{
	if (!(pc & ADDRESS_MASK) || stack_pointer <= state->registers[STACK_POINTER])
		return -ENODATA;
	*state = (struct unwind_state){.pc = pc & ADDRESS_MASK, .known = 1ull << FRAME_POINTER | 1ull << STACK_POINTER};
	state->registers[FRAME_POINTER] = frame_pointer;
	state->registers[STACK_POINTER] = stack_pointer;
	return 0;
}

int unwind_step_frame_pointer(struct unwind_state *state, const struct unwind_stack *stack, bool *called)
{
	__u64 frame, caller, pc;
	int err;

	if (unwind_frame_pointer(state, &frame) || frame % 8 || frame < state->registers[STACK_POINTER])
		return -ENODATA;
	err = unwind_word(stack, frame, &caller) ?: unwind_word(stack, frame + sizeof(caller), &pc);
	err = err ?: unwind_to(state, pc, frame + 2 * sizeof(caller), caller);
	*called |= !err;
	return err;
}
