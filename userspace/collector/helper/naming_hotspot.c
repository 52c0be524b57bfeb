// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "hotspot/hotspot_code.h"
#include "hotspot/hotspot_names.h"
#include "helper/naming_hotspot.h"
#include "helper/naming_objects.h"

#define JVMS 8
/* What was read of code is believed so long: a method is compiled anew at another place, mostly. */
#define KEPT_NS 10000000000ull
/* The code cache grows, and a JVM that has just begun has none. */
#define HEAPS_NS 1000000000ull
#define CODES    2048
#define METHODS  512

struct known_code {
	__u64 pc; /* 0: free */
	__u64 at_ns;
	struct hotspot_code code;
};

/* A method of interpreted frames, which each of them would look at again. */
struct known_method {
	__u64 address; /* 0: free */
	__u64 at_ns;
};

struct jvm {
	__u64 number; /* 0: free */
	__u64 used;
	__u64 heaps_ns;
	struct hotspot_layout layout;
	struct hotspot_heaps heaps;
	struct known_code codes[CODES];
	struct known_method methods[METHODS];
	struct hotspot_known known;
};

static struct jvm jvms[JVMS];
static struct target_memory *memory; /* of the question */
static __u64 uses;

static int read_layout(struct jvm *jvm, __u32 libjvm, const struct naming_runtime *asked)
{
	__u64 addresses[HOTSPOT_SYMBOLS];

	for (int i = 0; i < HOTSPOT_SYMBOLS; i++) {
		int err = naming_target_symbol(libjvm, asked, hotspot_symbols[i], &addresses[i]);

		if (err)
			return err;
	}
	return hotspot_layout_read(&jvm->layout, memory, addresses);
}

/* Where its structures have what. */
static int find_layout(__u32 libjvm, const struct naming_memory *from, struct jvm **out)
{
	const struct naming_runtime *asked = from->runtime;
	struct jvm *jvm = jvms;
	int err;

	memory = naming_target_memory(from);
	if (!asked->number)
		return -EINVAL;
	for (int i = 0; i < JVMS && jvm->number != asked->number; i++)
		if (jvms[i].number == asked->number || jvms[i].used < jvm->used)
			jvm = &jvms[i];
	if (jvm->number != asked->number) {
		memset(jvm, 0, sizeof(*jvm));
		err = read_layout(jvm, libjvm, asked);
		if (err)
			return err;
		jvm->number = asked->number;
	}
	jvm->used = ++uses;
	*out = jvm;
	return 0;
}

/* The same with its code. */
static int find_jvm(__u32 libjvm, const struct naming_memory *from, struct jvm **out)
{
	struct jvm *jvm;
	int err = find_layout(libjvm, from, out);

	if (err)
		return err;
	jvm = *out;
	if (!jvm->heaps_ns || now_ns() - jvm->heaps_ns > HEAPS_NS) {
		err = hotspot_heaps_read(&jvm->heaps, &jvm->layout, memory);
		/* It may have ended: what was read of it is still known. */
		if (err && !jvm->heaps_ns)
			return err;
		jvm->heaps_ns = now_ns();
	}
	return 0;
}

static int code_at(struct jvm *jvm, __u64 pc, const struct hotspot_code **out)
{
	struct known_code *known = &jvm->codes[(pc ^ pc >> 9) % CODES];
	int err;

	*out = &known->code;
	if (known->pc == pc && now_ns() - known->at_ns < KEPT_NS)
		return 0;
	known->pc = 0;
	err = hotspot_code_at(&jvm->heaps, &jvm->layout, memory, pc, &known->code);
	if (err)
		return err;
	known->pc = pc;
	known->at_ns = now_ns();
	return 0;
}

static void add_frame(struct naming_frames *frames, __u32 most, __u64 address, bool inlined)
{
	if (frames->count == most)
		return;
	frames->java |= 1u << frames->count;
	frames->inlined |= (__u32)inlined << frames->count;
	frames->pc[frames->count++] = address;
}

static bool is_method(struct jvm *jvm, __u64 address)
{
	struct known_method *known = &jvm->methods[(address >> 3 ^ address >> 12) % METHODS];
	char name[NAMING_NAME];

	if (address && known->address == address && now_ns() - known->at_ns < KEPT_NS)
		return true;
	if (hotspot_method_name(&jvm->layout, memory, address, name, sizeof(name)))
		return false;
	*known = (struct known_method){address, now_ns()};
	return true;
}

/* The method of an interpreted frame lies behind its last stack pointer; one word further where arm64 has another. */
static int interpreted_method(struct jvm *jvm, const struct unwind_stack *stack, __u64 frame, __u64 *out)
{
	for (int i = 1; i <= 2; i++)
		if (!unwind_word(stack, frame + (jvm->layout.last_sp - i) * (__s64)sizeof(*out), out) &&
		    is_method(jvm, *out))
			return 0;
	return -ENOENT;
}

/* The frame pointer of an interpreted frame is right; the caller's stack pointer may have been moved for the call. */
static int step_interpreted(const struct jvm *jvm, struct unwind_state *state, const struct unwind_stack *stack)
{
	__u64 frame, caller, pc, sender;
	int err = unwind_frame_pointer(state, &frame);

	err = err ?: unwind_word(stack, frame, &caller);
	err = err ?: unwind_word(stack, frame + sizeof(pc), &pc);
	err = err ?: unwind_word(stack, frame + jvm->layout.sender_sp * (__s64)sizeof(sender), &sender);
	if (!err && sender < frame + 2 * sizeof(pc))
		err = -ENODATA;
	return err ?: unwind_to(state, pc, sender, caller);
}

/* A compiled frame ends with the caller's frame pointer and the return address, on x86-64 and arm64. */
static int step_compiled(__u32 bytes, struct unwind_state *state, const struct unwind_stack *stack)
{
	const __u64 end = unwind_stack_pointer(state) + bytes;
	__u64 caller, pc;
	int err = unwind_word(stack, end - 2 * sizeof(pc), &caller) ?: unwind_word(stack, end - sizeof(pc), &pc);

	return err ?: unwind_to(state, pc, end, caller);
}

static int step(struct jvm *jvm, const struct hotspot_code *code, struct unwind_state *state,
		const struct unwind_stack *stack, struct naming_frames *frames, __u32 most)
{
	__u64 frame, method = 0;
	bool called = true;

	if (code->kind == HOTSPOT_INTERPRETER && !unwind_frame_pointer(state, &frame) &&
	    !interpreted_method(jvm, stack, frame, &method)) {
		add_frame(frames, most, method, false);
		return step_interpreted(jvm, state, stack);
	}
	for (__u32 i = 0; i < code->inlined_count; i++)
		add_frame(frames, most, code->inlined[i], true);
	add_frame(frames, most, state->pc, false);
	if (code->frame_bytes)
		return step_compiled(code->frame_bytes, state, stack);
	return unwind_step_frame_pointer(state, stack, &called);
}

int naming_hotspot_unwind(__u32 libjvm, const struct naming_memory *asked, const struct naming_stack *from,
			  struct naming_frames *frames)
{
	const struct unwind_stack stack = naming_stack_bytes(from);
	const __u32 most = naming_stack_most(from);
	struct unwind_state state = from->state;
	const struct hotspot_code *code;
	struct jvm *jvm;
	int err = find_jvm(libjvm, asked, &jvm);

	if (err)
		return err;
	frames->count = 0;
	while (!err && frames->count < most) {
		err = code_at(jvm, state.pc, &code);
		if (err == -ENOENT && frames->count) {
			err = 0;
			break;
		}
		err = err ?: step(jvm, code, &state, &stack, frames, most);
	}
	frames->state = state;
	frames->called = true;
	frames->end = err;
	return frames->count ? 0 : err;
}

int naming_hotspot_name(__u32 libjvm, const struct naming_memory *asked, __u64 address, struct naming_answer *answer)
{
	const struct hotspot_code *code;
	struct jvm *jvm;
	int err = find_jvm(libjvm, asked, &jvm);

	if (err)
		return err;
	err = code_at(jvm, address, &code);
	if (err)
		return hotspot_method_name(&jvm->layout, memory, address, answer->name, sizeof(answer->name));
	answer->offset = address - code->begin;
	if (code->kind == HOTSPOT_COMPILED)
		return hotspot_method_name(&jvm->layout, memory, code->method, answer->name, sizeof(answer->name));
	snprintf(answer->name, sizeof(answer->name), "HotSpot::%s", code->name);
	return 0;
}

int naming_hotspot_monitors(__u32 libjvm, const struct naming_memory *asked, __u32 cursor,
			    struct hotspot_monitors *monitors)
{
	struct jvm *jvm;
	int err = find_layout(libjvm, asked, &jvm);

	return err ?: hotspot_monitors_read(&jvm->layout, memory, &jvm->known, now_ns(), cursor, monitors);
}
