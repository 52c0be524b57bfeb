// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "waits/stacks.h"
#include "recording/recording_rows.h"

/* The probe's frames: programs and trampolines (without a symbol here), bpf_trace_runN, __traceiter_X. */
#define PROBE_FRAMES 6

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
	char name[256] = "", module[256] = "";
	__s64 known = recording_has_frame(stacks->recording, tgid, address);
	__u64 offset = 0;

	if (known)
		return known < 0 ? known : 0;
	if (tgid) {
		/* Best effort: the process may be gone. */
		if (stacks->users)
			user_symbols_lookup(stacks->users, tgid, address, name, sizeof(name), &offset, module,
					    sizeof(module));
	} else if (!symbols_lookup(stacks->symbols, address, &symbol)) {
		offset = symbol.offset;
	}
	return recording_put(stacks->recording, frame, .tgid = tgid, .address = address,
			     .symbol = tgid ? name : symbol.name, .offset = offset,
			     .module = tgid ? module : symbol.module);
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
