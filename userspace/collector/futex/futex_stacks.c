// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "futex/futex_stacks.h"

int futex_stacks_open(struct futex_stacks *stacks, struct bpf_map *map, __u32 cpus)
{
	stacks->per_cpu = futex_stacks_per_cpu_of(cpus);
	stacks->unwind = user_unwind_open();
	return stacks->unwind ? maps_map(&stacks->copies, map) : -ENOMEM;
}

void futex_stacks_close(struct futex_stacks *stacks)
{
	maps_unmap(&stacks->copies);
	user_unwind_close(stacks->unwind);
}

void futex_stacks_unwind(struct futex_stacks *stacks, __u32 cpu, struct futex_event *event)
{
	const struct futex_stack *copy;
	__u64 frames[STACK_FRAMES];
	int count;

	if (!stacks->per_cpu)
		return;
	copy = (const struct futex_stack *)stacks->copies.data + (size_t)cpu * stacks->per_cpu +
	       ((event->sequence - 1) & (stacks->per_cpu - 1));
	if (__atomic_load_n(&copy->sequence, __ATOMIC_ACQUIRE) != event->sequence ||
	    copy->stack_bytes > FUTEX_STACK_BYTES)
		return;
	count = user_unwind(stacks->unwind, event->tgid, copy->pc, copy->registers, copy->stack, copy->stack_bytes,
			    frames, STACK_FRAMES);
	/* Another sample's meanwhile. */
	if (count < 2 || __atomic_load_n(&copy->sequence, __ATOMIC_ACQUIRE) != event->sequence)
		return;
	memcpy(event->user, frames, count * sizeof(*frames));
	event->user_frames = count;
}
