// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * spinlock: two threads on two CPUs run a program that holds one bpf_spin_lock
 * over a bounded loop.  The truth is bounded without trusting any tracer: the
 * program logs when each run began and ended.  While both CPUs are in a run, one
 * at most holds the lock, so the other waits or is on its way in or out; and a run
 * that meets no other waits for nobody.  Hence
 *   waited >= time in which both were in a run - what the ways in and out take
 *   waited <= length of the runs that met another
 * An own program counts the begins of the two threads.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "spinlock.h"
#include "spinlock.skel.h"
#include "workload.h"

#define RUNS_ALONE 2000

struct worker {
	struct spinlock_bpf *skeleton;
	pthread_t thread;
	pthread_barrier_t *barrier;
	__u64 runs;
	int cpu;
};

static bool ending;

/* Runs the program `runs` times on this CPU; the mean of its time in ns. */
static __u32 run_program(const struct bpf_program *program, int slot, __u64 runs)
{
	struct __sk_buff context = {.mark = slot};
	char packet[64] = {};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet), .ctx_in = &context,
		    .ctx_size_in = sizeof(context), .repeat = runs);
	int error = bpf_prog_test_run_opts(bpf_program__fd(program), &options);

	if (error)
		die("cannot run the classifier: %s", strerror(-error));
	return options.duration;
}

static void *run_worker(void *argument)
{
	struct worker *worker = argument;
	struct spinlock_bpf *skeleton = worker->skeleton;

	pin_to_cpu(worker->cpu);
	skeleton->bss->threads[worker->cpu] = gettid();
	pthread_barrier_wait(worker->barrier);
	for (;;) {
		pthread_barrier_wait(worker->barrier);
		if (ending)
			return NULL;
		run_program(skeleton->progs.hold_long, worker->cpu, worker->runs);
		pthread_barrier_wait(worker->barrier);
	}
}

/* Begins of both threads, once they sleep again and make no more. */
static __u64 begins_so_far(const struct spinlock_bpf *skeleton)
{
	int i;

	for (i = 0; i < 2; i++)
		wait_until_blocked(getpid(), skeleton->bss->threads[i], SYS_futex);
	return skeleton->bss->begins[0] + skeleton->bss->begins[1];
}

struct meetings {
	__u64 runs;      /* that met a run of the other CPU */
	__u64 length_ns; /* of those runs */
	__u64 both_ns;   /* in which both CPUs were in a run; counted from either side, so twice */
};

/* Adds the runs of one CPU; both logs are in order. */
static void add_meetings(const struct runs *one, const struct runs *other, struct meetings *sum)
{
	__u64 i, k, first = 0, begin, end, both;

	for (i = 0; i < one->count; i++) {
		const struct run *run = &one->run[i];

		while (first < other->count && other->run[first].end_ns <= run->begin_ns)
			first++;
		both = 0;
		for (k = first; k < other->count && other->run[k].begin_ns < run->end_ns; k++) {
			begin = other->run[k].begin_ns > run->begin_ns ? other->run[k].begin_ns : run->begin_ns;
			end = other->run[k].end_ns < run->end_ns ? other->run[k].end_ns : run->end_ns;
			both += end - begin;
		}
		if (!both)
			continue;
		sum->runs++;
		sum->length_ns += run->end_ns - run->begin_ns;
		sum->both_ns += both;
	}
}

static void run_round(struct spinlock_bpf *skeleton, struct worker *workers, __u64 runs, __u64 without_hold_ns)
{
	struct runs *of = skeleton->bss->runs_of;
	__u64 begins = begins_so_far(skeleton), both_ns, ways_ns;
	struct meetings met = {};

	if (runs > MOST_RUNS)
		die("a round has at most %d runs", MOST_RUNS);
	of[0].count = of[1].count = 0;
	workers[0].runs = workers[1].runs = runs;
	pthread_barrier_wait(workers[0].barrier);
	pthread_barrier_wait(workers[0].barrier);
	begins = begins_so_far(skeleton) - begins;
	add_meetings(&of[0], &of[1], &met);
	add_meetings(&of[1], &of[0], &met);
	both_ns = met.both_ns / 2;
	ways_ns = met.runs * without_hold_ns;
	printf("{\"event\": \"waits\", \"runs\": %llu, \"met\": %llu, \"begins\": %llu, \"lower_ns\": %llu, "
	       "\"upper_ns\": %llu}\n",
	       2 * runs, met.runs, begins, both_ns > ways_ns ? both_ns - ways_ns : 0, met.length_ns);
}

int main(void)
{
	struct worker workers[2] = {};
	__u64 without_hold_ns;
	struct spinlock_bpf *skeleton;
	pthread_barrier_t barrier;
	struct command command;
	int i;

	if (get_nprocs() < 2)
		die("needs two CPUs");
	skeleton = spinlock_bpf__open_and_load();
	if (!skeleton || spinlock_bpf__attach(skeleton))
		die("cannot load the classifier: %s", strerror(errno));
	commands_open();
	/* The first runs warm the caches and are thrown away. */
	run_program(skeleton->progs.hold_nothing, 0, RUNS_ALONE);
	without_hold_ns = run_program(skeleton->progs.hold_nothing, 0, RUNS_ALONE);
	pthread_barrier_init(&barrier, NULL, 3);
	for (i = 0; i < 2; i++) {
		workers[i] = (struct worker){.skeleton = skeleton, .cpu = i, .barrier = &barrier};
		if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]))
			die("cannot make a thread");
	}
	pthread_barrier_wait(&barrier);
	begins_so_far(skeleton);
	printf("{\"event\": \"ready\", \"pid\": %d, \"threads\": [%u, %u], \"without_hold_ns\": "
	       "%llu}\n",
	       getpid(), skeleton->bss->threads[0], skeleton->bss->threads[1], without_hold_ns);
	while (next_command(&command))
		run_round(skeleton, workers, command.count, without_hold_ns);
	ending = true;
	pthread_barrier_wait(&barrier);
	for (i = 0; i < 2; i++)
		pthread_join(workers[i].thread, NULL);
	spinlock_bpf__destroy(skeleton);
	return 0;
}
