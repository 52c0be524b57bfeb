// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * begin_end_cost [-n|-c]: keeps the kernel's BPF statistics on by a file descriptor,
 * so that they go off with us whatever happens, and an empty pair of programs
 * attached (-n: without the pair; -c: and a pair that reads the clock).  Each "read"
 * prints the pairs' run times and counts.  The time of one run includes the two clock
 * reads of the statistics.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "begin_end_cost.skel.h"
#include "workload.h"

static struct bpf_prog_info program_info(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		die("cannot read the program's figures: %s", strerror(errno));
	return info;
}

static void print_pair(const char *event, const struct bpf_program *first, const struct bpf_program *last)
{
	struct bpf_prog_info begin = program_info(first), end = program_info(last);

	printf("{\"event\": \"%s\", \"begin_runs\": %llu, \"begin_ns\": %llu, \"end_runs\": %llu, "
	       "\"end_ns\": %llu}\n",
	       event, (__u64)begin.run_cnt, (__u64)begin.run_time_ns, (__u64)end.run_cnt, (__u64)end.run_time_ns);
}

static void attach(const struct bpf_program *program)
{
	if (!bpf_program__attach(program))
		die("cannot attach to lock:contention_begin: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct begin_end_cost_bpf *skeleton = begin_end_cost_bpf__open_and_load();
	bool clock = argc > 1 && !strcmp(argv[1], "-c");
	struct command command;
	int statistics;

	if (!skeleton)
		die("cannot load the empty pair: %s", strerror(errno));
	statistics = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (statistics < 0)
		die("cannot switch BPF statistics on: %s", strerror(errno));
	if (!(argc > 1 && !strcmp(argv[1], "-n"))) {
		attach(skeleton->progs.empty_end);
		attach(skeleton->progs.empty_begin);
	}
	if (clock) {
		attach(skeleton->progs.clock_end);
		attach(skeleton->progs.clock_begin);
	}
	commands_open();
	printf("{\"event\": \"ready\", \"pid\": %d}\n", getpid());
	while (next_command(&command)) {
		print_pair("cost", skeleton->progs.empty_begin, skeleton->progs.empty_end);
		if (clock)
			print_pair("clock", skeleton->progs.clock_begin, skeleton->progs.clock_end);
	}
	begin_end_cost_bpf__destroy(skeleton);
	close(statistics);
	return 0;
}
