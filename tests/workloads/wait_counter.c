// SPDX-License-Identifier: GPL-2.0-or-later
/* wait_counter: all begins by flags, and ends, since it was attached; "read" prints them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "wait_counter.skel.h"
#include "bpf_misses.h"
#include "workload.h"

#define FLAG_VALUES 64
#define ENDS        FLAG_VALUES
#define OTHER       (FLAG_VALUES + 1)

static __u64 read_count(int map, __u32 key, __u64 *values, int cpus)
{
	__u64 sum = 0;
	int cpu;

	if (bpf_map_lookup_elem(map, &key, values))
		die("cannot read the counters: %s", strerror(errno));
	for (cpu = 0; cpu < cpus; cpu++)
		sum += values[cpu];
	return sum;
}

static void print_counts(const struct wait_counter_bpf *skeleton, __u64 *values, int cpus)
{
	int map = bpf_map__fd(skeleton->maps.counts);
	const char *separator = "";
	__u64 begins = 0, count;
	__u32 key;

	printf("{\"event\": \"counts\", \"by_flags\": {");
	for (key = 0; key < FLAG_VALUES; key++) {
		count = read_count(map, key, values, cpus);
		if (!count)
			continue;
		printf("%s\"%u\": %llu", separator, key, count);
		separator = ", ";
		begins += count;
	}
	count = read_count(map, OTHER, values, cpus);
	printf("}, \"other\": %llu, \"begins\": %llu, \"ends\": %llu, \"begin_misses\": %llu, \"end_misses\": %llu}\n",
	       count, begins + count, read_count(map, ENDS, values, cpus), program_misses(skeleton->progs.count_begin),
	       program_misses(skeleton->progs.count_end));
}

int main(void)
{
	struct wait_counter_bpf *skeleton = wait_counter_bpf__open_and_load();
	int cpus = libbpf_num_possible_cpus();
	struct command command;
	__u64 *values;

	if (!skeleton || wait_counter_bpf__attach(skeleton))
		die("cannot attach to lock:contention_begin: %s", strerror(errno));
	values = calloc(cpus, sizeof(*values));
	if (!values)
		die("out of memory");
	commands_open();
	printf("{\"event\": \"ready\", \"pid\": %d}\n", getpid());
	while (next_command(&command))
		print_counts(skeleton, values, cpus);
	wait_counter_bpf__detach(skeleton);
	print_counts(skeleton, values, cpus);
	wait_counter_bpf__destroy(skeleton);
	free(values);
	return 0;
}
