// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "probes/probe_cost.h"

#define COST_WINDOW_NS 100000000

static bool is_of(const struct probes *probes, int fd, __u64 signals)
{
	for (int i = 0; i < probes->attached_count; i++)
		if (bpf_program__fd(probes->attached[i].choice.program) == fd)
			return signals >> probes->attached[i].choice.signal & 1;
	return false;
}

/* Runs and run time so far. */
static int sum_runs(const struct probes *probes, __u64 signals, __u64 *runs, __u64 *ns)
{
	*runs = *ns = 0;
	for (int i = 0; i < probes->program_count; i++) {
		struct bpf_prog_info info = {};
		__u32 size = sizeof(info);

		if (!is_of(probes, probes->programs[i].fd, signals))
			continue;
		if (bpf_obj_get_info_by_fd(probes->programs[i].fd, &info, &size))
			return -errno;
		*runs += info.run_cnt;
		*ns += info.run_time_ns;
	}
	return 0;
}

int probe_cost_measure(const struct probes *probes, __u64 signals, struct probe_cost *cost)
{
	const struct timespec window = {.tv_nsec = COST_WINDOW_NS};
	__u64 runs = 0, ns = 0, runs_before, ns_before, begin;
	int statistics = bpf_enable_stats(BPF_STATS_RUN_TIME), err;

	*cost = (struct probe_cost){};
	if (statistics < 0)
		return -errno;
	begin = now_ns();
	err = sum_runs(probes, signals, &runs_before, &ns_before);
	nanosleep(&window, NULL);
	err = err ?: sum_runs(probes, signals, &runs, &ns);
	cost->window_ns = now_ns() - begin;
	close(statistics);
	if (err)
		return err;
	cost->runs = runs - runs_before;
	cost->run_ns = ns - ns_before;
	return 0;
}
