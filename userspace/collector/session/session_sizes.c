// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>

#include <bpf/libbpf.h>

#include "base/online_cpus.h"
#include "base/proc.h"
#include "cli/message.h"
#include "session/session_sizes.h"
#include "session/subsystems.h"

/* One more than the highest CPU there is: what a machine has no CPU for, though one may come, gets no memory. */
static __u32 cpus_of_machine(void)
{
	int possible;
	__u32 end;

	if (cpus_listed(PRESENT_CPUS, 0, &end))
		return end;
	possible = libbpf_num_possible_cpus();
	return possible > 0 ? possible : 0;
}

int sizing_for_options(const struct options *options, const struct plan *plan, struct sizing *sizing)
{
	const struct size_part *parts[SUBSYSTEMS];
	struct sizing_wish wish = {.budget = options->memory_bytes,
				   .user_stacks = options->user_stacks,
				   .threads = proc_threads(),
				   .parts = parts};
	__u32 cpus = options->possible_cpus ?: cpus_of_machine();
	__u64 need;
	int err;

	for (int i = 0; i < SUBSYSTEMS; i++)
		if (subsystems[i]->sizes && subsystems[i]->sized(options, plan))
			parts[wish.part_count++] = subsystems[i]->sizes;
	err = sizing_make(sizing, cpus, &wish, &need);
	if (err == -ENOSPC)
		message("--memory %llu KiB is too little for %u CPUs: at least %llu KiB are needed",
			options->memory_bytes >> 10, cpus, (need + 1023) >> 10);
	return err;
}

int session_sizes(const struct options *options)
{
	struct sizing s;
	int err = sizing_for_options(options, NULL, &s);

	if (err)
		return err;
	printf("{\"cpus\": %u, \"named_rows_per_cpu\": %u, \"ring_events_per_cpu\": %u, \"sleep_slots\": %u, "
	       "\"locks\": %u, \"ring_samples_per_cpu\": %u, \"futex_rows_per_cpu\": %u, \"futex_slots\": %u, "
	       "\"futexes\": %u, "
	       "\"map_bytes\": %llu, "
	       "\"shadow_bytes\": %llu, \"lock_bytes\": %llu, \"futex_bytes\": %llu, \"total_bytes\": %llu, "
	       "\"budget_bytes\": %llu}\n",
	       s.cpus, s.named_rows, s.ring_events, s.sleep_slots, s.locks, s.ring_samples, s.futex_rows, s.futex_slots,
	       s.futexes, s.map_bytes, s.last_read_bytes, s.lock_bytes, s.futex_bytes, s.total_bytes, s.budget_bytes);
	return 0;
}
