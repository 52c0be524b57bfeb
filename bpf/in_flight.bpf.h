/* SPDX-License-Identifier: GPL-2.0 */
/* Looks for a wait in flight, for the probes of waits and for those who want to know what a CPU or a task waits for. */
#ifndef IN_FLIGHT_BPF_H
#define IN_FLIGHT_BPF_H

#include "state.bpf.h"

static __always_inline struct sleep_slot *sleeper_at(__u32 index)
{
	return bpf_map_lookup_elem(&sleepers, &index);
}

/* Where the slot of tid is looked for first. */
static __always_inline __u32 sleeper_home(const struct cpu_state *state, __u32 tid)
{
	return tid & ((1u << (state->sleep_bits & 31)) - 1);
}

/* Index of the slot of tid, or -1. */
static __always_inline __s32 find_sleeper(__u32 tid)
{
	__u32 home = tid & sleep_mask;
	struct sleep_slot *slot = sleeper_at(home);

	if (!slot)
		return -1;
	if (slot->tid == tid)
		return home;
	if (!slot->displaced)
		return -1;
	for (int probe = 1; probe < SLEEP_PROBES; probe++) {
		__u32 index = (home + probe) & sleep_mask;

		slot = sleeper_at(index);
		if (slot && slot->tid == tid)
			return index;
	}
	return -1;
}

/* The innermost wait in flight: of this CPU if it spins, else of the task.  False: none, or it begins just now. */
static __always_inline bool wait_in_flight(__u32 cpu, __u32 tid, __u64 *lock, __u8 *kind)
{
	const struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sleep_slot *sleeper;
	__s32 index;
	__u32 depth;

	if (state && state->spin_depth) {
		const struct spin_slot *spin = &state->spin[(state->spin_depth - 1) & (SPIN_DEPTH - 1)];

		*lock = spin->lock;
		*kind = spin->kind;
		/* A slot of another task lost its end: it is nobody's wait now. */
		if (spin->task == bpf_get_current_task())
			return spin->begin_ns;
	}
	index = tid ? find_sleeper(tid) : -1;
	sleeper = index < 0 ? NULL : sleeper_at(index);
	depth = sleeper ? sleeper->depth : 0;
	if (!depth)
		return false;
	*lock = sleeper->wait[(depth - 1) & (SLEEP_DEPTH - 1)].lock;
	*kind = sleeper->wait[(depth - 1) & (SLEEP_DEPTH - 1)].kind;
	return true;
}

#endif /* IN_FLIGHT_BPF_H */
