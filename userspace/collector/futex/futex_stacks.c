// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "futex/futex_stacks.h"

_Static_assert(FUTEX_STACK_BYTES == NAMING_STACK_BYTES, "the copy of a stack goes to the naming helper as it is");
_Static_assert(STACK_FRAMES == NAMING_FRAMES, "and so do its frames");

int futex_stacks_open(struct futex_stacks *stacks, struct bpf_map *map, __u32 cpus)
{
	stacks->per_cpu = futex_stacks_per_cpu_of(cpus);
	return maps_map(&stacks->copies, map);
}

void futex_stacks_close(struct futex_stacks *stacks)
{
	maps_unmap(&stacks->copies);
}

bool futex_stacks_copy(const struct futex_stacks *stacks, __u32 cpu, const struct futex_event *event,
		       struct user_stack *out)
{
	const struct futex_stack *copy;
	__u64 size;

	if (!stacks->per_cpu)
		return false;
	copy = (const struct futex_stack *)stacks->copies.data + (size_t)cpu * stacks->per_cpu +
	       ((event->sequence - 1) & (stacks->per_cpu - 1));
	if (__atomic_load_n(&copy->sequence, __ATOMIC_ACQUIRE) != event->sequence)
		return false;
	size = copy->stack_bytes;
	if (size > sizeof(out->bytes))
		return false;
	out->size = size;
	out->pc = copy->pc;
	out->bare = false;
	out->program = copy->program;
	memcpy(out->registers, copy->registers, sizeof(copy->registers));
	memcpy(out->bytes, copy->stack, size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&copy->sequence, __ATOMIC_RELAXED) == event->sequence;
}
