// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#include "waits/stacks.h"
#include "recording/recording_rows.h"

/* The probe's frames: programs and trampolines (without a symbol here), bpf_trace_runN, __traceiter_X. */
#define PROBE_FRAMES 6

/* A file that takes longer than this to read has no names in a recording that ends. */
#define SETTLE_NS 8000000000ull
/* After Ctrl-C nobody wants to wait. */
#define SETTLE_INTERRUPTED_NS 1500000000ull

int stacks_trim(const struct symbols *symbols, const __u64 **frames, int count)
{
	int first = 0;

	for (int i = 0; i < count && i < PROBE_FRAMES; i++) {
		struct symbol symbol;

		if (symbols_lookup(symbols, (*frames)[i], &symbol) || !strncmp(symbol.name, "__traceiter_", 12) ||
		    !strncmp(symbol.name, "bpf_trace_run", 13) || !strncmp(symbol.name, "__bpf_trace_", 12) ||
		    !strncmp(symbol.name, "trace_contention_", 17))
			first = i + 1;
	}
	*frames += first;
	return count - first;
}

static int add_frame(struct stacks *stacks, __u32 tgid, __u64 address)
{
	struct symbol symbol = {.name = "", .module = ""};
	const struct naming_wish wish = {NAMED_FRAME, tgid, address, 0};
	__s64 known = recording_has_frame(stacks->recording, tgid, address);

	if (known)
		return known < 0 ? known : 0;
	/* Its name comes later: see stacks_put_names(). */
	if (tgid && stacks->naming)
		naming_queue_ask(stacks->naming, &wish);
	else if (!tgid)
		symbols_lookup(stacks->symbols, address, &symbol);
	return recording_put(stacks->recording, frame, .tgid = tgid, .address = address, .symbol = symbol.name,
			     .offset = symbol.offset, .module = symbol.module);
}

__s64 stacks_id(struct stacks *stacks, __u32 tgid, const __u64 *frames, int count)
{
	int size = count * (int)sizeof(*frames), err;
	__s64 id;

	if (count <= 0)
		return 0;
	id = recording_find_stack(stacks->recording, tgid, frames, size);
	if (id)
		return id;
	for (int i = 0; i < count; i++) {
		err = add_frame(stacks, tgid, frames[i]);
		if (err)
			return err;
	}
	err = recording_put(stacks->recording, stack, .tgid = tgid, .frames = {frames, size});
	return err ?: recording_find_stack(stacks->recording, tgid, frames, size);
}

static int put_name(void *context, const struct named *named)
{
	const struct naming_wish *wish = &named->wish;
	struct stacks *stacks = context;
	char text[NAMING_NAME + 24];

	if (wish->thing == NAMED_FRAME)
		return recording_set_frame_name(stacks->recording, wish->tgid, wish->address, named->name,
						named->offset, named->module);
	snprintf(text, sizeof(text), *named->name && named->offset ? "%s+0x%llx" : "%s", named->name, named->offset);
	return recording_set_futex_name(stacks->recording, wish->id, text, named->module);
}

int stacks_put_sample(struct stacks *stacks, const struct naming_sample *sample)
{
	__s64 stack = stacks_id(stacks, sample->stack.tgid, sample->frames, sample->count);

	if (stack < 0)
		return stack;
	return recording_put(stacks->recording, futex_sample, .futex = sample->futex,
			     .role = sample->wake ? "waker" : "waiter", .task = sample->task, .stack = stack,
			     .waits = sample->waits, .wait_ns = sample->wait_ns, .samples = 1);
}

static int put_sample(void *context, const struct naming_sample *sample)
{
	return stacks_put_sample(context, sample);
}

static int put_look(void *context, const struct monitor_look *look)
{
	struct stacks *stacks = context;

	return monitors_put(stacks->monitors, stacks->recording, look);
}

int stacks_put_names(struct stacks *stacks, bool last)
{
	const struct naming_taker taker = {.name = put_name, .sample = put_sample, .look = put_look, .context = stacks};

	if (!stacks->naming)
		return 0;
	return last ? naming_queue_settle(stacks->naming, stacks->interrupted ? SETTLE_INTERRUPTED_NS : SETTLE_NS,
					  &taker)
		    : naming_queue_take(stacks->naming, &taker);
}
