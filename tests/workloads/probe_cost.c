// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * probe_cost: what programs at a function's entry and exit add to a call of it, by the clock; in a guest whose clock
 * counts instructions, in instructions.  One line of JSON for each way of probe_cost.bpf.c and probe_session.bpf.c.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "probe_cost.skel.h"
#include "probe_session.skel.h"
#include "workload.h"

#define CALLS 200000
/* BPF_TRACE_FSESSION of include/uapi/linux/bpf.h, which older headers lack. */
#define FSESSION 58

static double call_ns(void)
{
	struct timespec begin, end;
	int call;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (call = 0; call < CALLS; call++)
		syscall(SYS_getppid);
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / CALLS;
}

/* A guest that has just booted has other work for a second or two. */
static double steady_ns(void)
{
	double last = call_ns(), ns;
	int turn;

	for (turn = 0; turn < 100; turn++) {
		ns = call_ns();
		if (ns < 1.01 * last && last < 1.01 * ns)
			return ns;
		last = ns;
	}
	die("no two readings agree");
}

static void report(const char *way, double nothing_ns, volatile __u64 *runs)
{
	double ns;

	*runs = 0;
	ns = steady_ns();
	if (*runs < CALLS)
		die("%s: ran %llu times in %d calls", way, (unsigned long long)*runs, CALLS);
	printf("{\"way\": \"%s\", \"instructions\": %.1f}\n", way, ns - nothing_ns);
}

static void measure(const char *way, double nothing_ns, bool entry)
{
	struct probe_cost_bpf *skeleton = probe_cost_bpf__open();

	if (!skeleton)
		die("cannot open the programs: %s", strerror(errno));
	bpf_program__set_autoload(skeleton->progs.pair_entry, entry);
	bpf_program__set_autoload(skeleton->progs.pair_exit, entry);
	bpf_program__set_autoload(skeleton->progs.exit_alone, !entry);
	if (probe_cost_bpf__load(skeleton) || probe_cost_bpf__attach(skeleton))
		die("%s: cannot be attached: %s", way, strerror(errno));
	report(way, nothing_ns, &skeleton->bss->runs);
	probe_cost_bpf__destroy(skeleton);
}

/* Kernels before 7.0 have no such programs, and functions of other arguments by these names. */
static void measure_session(const char *way, double nothing_ns)
{
	struct probe_session_bpf *skeleton = probe_session_bpf__open();
	bool attached = false;

	if (skeleton) {
		bpf_program__set_expected_attach_type(skeleton->progs.session, FSESSION);
		attached = !probe_session_bpf__load(skeleton) && !probe_session_bpf__attach(skeleton);
	}
	if (attached)
		report(way, nothing_ns, &skeleton->bss->runs);
	else
		printf("{\"way\": \"%s\", \"instructions\": null}\n", way);
	probe_session_bpf__destroy(skeleton);
}

int main(void)
{
	double nothing_ns = steady_ns();

	measure("a pair, fentry and fexit", nothing_ns, true);
	measure_session("one program for both, fsession", nothing_ns);
	measure("fexit alone, which hands nothing on", nothing_ns, false);
	return 0;
}
