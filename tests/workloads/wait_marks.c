// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * wait_marks: how long the programs of others at lock:contention_begin and contention_end take, wait by wait.
 * Commands, a line each: "mark" attaches the next mark, "empty" and "clock" a pair that does nothing and one that
 * reads the clock, "least" one that adds up how long each lock was waited for, "clear" forgets what was measured, "read"
 * prints it: a line for each gap between two marks and each half of a wait.  In a gap are all programs that were attached between its marks, and one clock read of a mark.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "wait_marks.h"
#include "wait_marks.skel.h"
#include "workload.h"

static const char *const half_names[HALVES] = {[HALF_BEGIN] = "begin", [HALF_END] = "end"};

static void attach(struct bpf_object *object, const char *name)
{
	/* The end first: no wait is then begun without one. */
	for (int half = HALVES - 1; half >= 0; half--) {
		struct bpf_program *program;
		char full[32];

		snprintf(full, sizeof(full), "%s_%s", half_names[half], name);
		program = bpf_object__find_program_by_name(object, full);
		if (!program || !bpf_program__attach(program))
			die("cannot attach %s: %s", full, strerror(errno));
	}
}

/* The time that a share of all waits does not exceed, in ns. */
static __u64 quantile(const __u64 *buckets, __u64 waits, double share)
{
	__u64 seen = 0;

	for (__u32 bucket = 0; bucket < GAP_BUCKETS; bucket++) {
		seen += buckets[bucket];
		if (seen >= share * waits)
			return ((__u64)bucket << BUCKET_SHIFT) + (1 << BUCKET_SHIFT) / 2;
	}
	return GAP_BUCKETS << BUCKET_SHIFT;
}

/* The mean of the half between the quartiles, in ns: finer than a median, as a clock's steps may be. */
static double middle(const __u64 *buckets, __u64 waits)
{
	double first = waits * 0.25, last = waits * 0.75, seen = 0, sum = 0;

	for (__u32 bucket = 0; bucket < GAP_BUCKETS && seen < last; bucket++) {
		double from = seen > first ? seen : first, to = seen + buckets[bucket];

		seen = to;
		if (to > last)
			to = last;
		if (to > from)
			sum += (to - from) * (((__u64)bucket << BUCKET_SHIFT) + (1 << BUCKET_SHIFT) / 2);
	}
	return waits ? sum / (last - first) : 0;
}

static void print_gap(const struct marked *marked, int cpus, enum half half, int gap)
{
	static __u64 buckets[GAP_BUCKETS];
	__u64 waits = 0, sum_ns = 0;

	memset(buckets, 0, sizeof(buckets));
	for (int cpu = 0; cpu < cpus; cpu++) {
		const struct marked *own = &marked[cpu * HALVES + half];

		sum_ns += own->sum_ns[gap];
		for (__u32 bucket = 0; bucket < GAP_BUCKETS; bucket++) {
			buckets[bucket] += own->buckets[gap][bucket];
			waits += own->buckets[gap][bucket];
		}
	}
	printf("{\"event\": \"gap\", \"half\": \"%s\", \"gap\": %d, \"waits\": %llu, \"mean_ns\": %.1f, "
	       "\"middle_ns\": %.1f, \"median_ns\": %llu, \"most_ns\": %llu}\n",
	       half_names[half], gap, waits, waits ? (double)sum_ns / waits : 0, middle(buckets, waits),
	       quantile(buckets, waits, 0.5), quantile(buckets, waits, 0.99));
}

int main(void)
{
	struct wait_marks_bpf *skeleton = wait_marks_bpf__open();
	int cpus = libbpf_num_possible_cpus(), marks = 0;
	struct command command;
	struct marked *marked;

	if (!skeleton || cpus < 1 || bpf_map__set_max_entries(skeleton->maps.marked, cpus * HALVES) ||
	    wait_marks_bpf__load(skeleton))
		die("cannot load the marks: %s", strerror(errno));
	marked = mmap(NULL, sizeof(*marked) * cpus * HALVES, PROT_READ | PROT_WRITE, MAP_SHARED,
		      bpf_map__fd(skeleton->maps.marked), 0);
	if (marked == MAP_FAILED)
		die("cannot map what is measured: %s", strerror(errno));
	commands_open();
	printf("{\"event\": \"ready\", \"pid\": %d}\n", getpid());
	while (next_command(&command)) {
		if (!strcmp(command.word, "mark")) {
			char number[16];

			if (marks == MARKS)
				die("no more than %d marks", MARKS);
			snprintf(number, sizeof(number), "%d", marks++);
			attach(skeleton->obj, number);
		} else if (!strcmp(command.word, "empty") || !strcmp(command.word, "clock") ||
			   !strcmp(command.word, "least")) {
			attach(skeleton->obj, command.word);
		} else if (!strcmp(command.word, "clear")) {
			memset(marked, 0, sizeof(*marked) * cpus * HALVES);
		} else if (!strcmp(command.word, "read")) {
			for (int gap = 1; gap < marks; gap++)
				for (int half = 0; half < HALVES; half++)
					print_gap(marked, cpus, half, gap);
		} else {
			die("unknown command %s", command.word);
		}
		printf("{\"event\": \"done\"}\n");
	}
	wait_marks_bpf__destroy(skeleton);
	return 0;
}
