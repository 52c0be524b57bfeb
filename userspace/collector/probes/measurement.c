// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "probes/measurement.h"
#include "recording/recording_rows.h"

#define BATCHES    10
#define BATCH_RUNS 100

/*
 * A raw tracepoint program run by BPF_PROG_TEST_RUN passes bpf_prog_run(), and in
 * it the same two clock reads, as one that is attached does (include/linux/filter.h,
 * net/bpf/test_run.c, 5.10 to 7.2).  The tenth parts of a nanosecond are not worth a unit.
 */
static bool run_batch(int fd, __u64 *ns)
{
	struct bpf_prog_info before = {}, after = {};
	__u32 size = sizeof(before);

	if (bpf_obj_get_info_by_fd(fd, &before, &size))
		return false;
	for (int i = 0; i < BATCH_RUNS; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, run);

		if (bpf_prog_test_run_opts(fd, &run))
			return false;
	}
	size = sizeof(after);
	if (bpf_obj_get_info_by_fd(fd, &after, &size) || after.run_cnt <= before.run_cnt)
		return false;
	*ns = (after.run_time_ns - before.run_time_ns) / (after.run_cnt - before.run_cnt);
	return true;
}

int measurement_record(struct recording *recording, int program_fd, bool coarse_clock)
{
	int statistics = bpf_enable_stats(BPF_STATS_RUN_TIME), err = 0;
	__u64 least = ~0ull, ns;
	struct timespec step;

	for (int i = 0; i < BATCHES && run_batch(program_fd, &ns); i++)
		least = ns < least ? ns : least;
	if (statistics >= 0)
		close(statistics);
	if (least != ~0ull)
		err = recording_put(recording, cost, .name = "measurement_ns", .value = least, .unit = "ns");
	if (!err && coarse_clock && !clock_getres(CLOCK_MONOTONIC_COARSE, &step))
		err = recording_put_number(recording, "clock_step_ns", step.tv_nsec);
	return err;
}
