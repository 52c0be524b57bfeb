// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * spinlock: two threads on two CPUs run a program that holds one bpf_spin_lock
 * over a bounded loop.  The truth is bounded without trusting any tracer: a
 * thread is outside, waiting or holding, and only one can hold at a time, so
 *   waited >= elapsed of both - length of the round - what a run without hold takes
 *   waited <= elapsed of both - runs * shortest run alone
 * and an own program counts the begins of the two threads.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	__u64 began_ns;
	__u64 ended_ns;
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
		worker->began_ns = now_ns();
		run_program(skeleton->progs.hold_long, worker->cpu, worker->runs);
		worker->ended_ns = now_ns();
		pthread_barrier_wait(worker->barrier);
	}
}

static void run_round(struct spinlock_bpf *skeleton, struct worker *workers, __u64 runs, __u64 without_hold_ns,
		      __u64 alone_ns)
{
	__u64 began_ns, ended_ns, elapsed_ns, overhead_ns;

	memset(skeleton->bss->runs_of, 0, sizeof(skeleton->bss->runs_of));
	memset(skeleton->bss->begins, 0, sizeof(skeleton->bss->begins));
	workers[0].runs = workers[1].runs = runs;
	pthread_barrier_wait(workers[0].barrier);
	pthread_barrier_wait(workers[0].barrier);
	began_ns = workers[0].began_ns < workers[1].began_ns ? workers[0].began_ns : workers[1].began_ns;
	ended_ns = workers[0].ended_ns > workers[1].ended_ns ? workers[0].ended_ns : workers[1].ended_ns;
	elapsed_ns = skeleton->bss->runs_of[0].elapsed_ns + skeleton->bss->runs_of[1].elapsed_ns;
	overhead_ns = ended_ns - began_ns + 2 * runs * without_hold_ns;
	printf("{\"event\": \"waits\", \"runs\": %llu, \"begins\": %llu, \"lower_ns\": %llu, \"upper_ns\": %llu}\n",
	       2 * runs, skeleton->bss->begins[0] + skeleton->bss->begins[1],
	       elapsed_ns > overhead_ns ? elapsed_ns - overhead_ns : 0, elapsed_ns - 2 * runs * alone_ns);
}

int main(void)
{
	struct worker workers[2] = {};
	__u64 alone_ns, without_hold_ns;
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
	memset(skeleton->bss->runs_of, 0, sizeof(skeleton->bss->runs_of));
	run_program(skeleton->progs.hold_long, 0, RUNS_ALONE);
	alone_ns = skeleton->bss->runs_of[0].shortest_ns;
	pthread_barrier_init(&barrier, NULL, 3);
	for (i = 0; i < 2; i++) {
		workers[i] = (struct worker){.skeleton = skeleton, .cpu = i, .barrier = &barrier};
		if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]))
			die("cannot make a thread");
	}
	pthread_barrier_wait(&barrier);
	printf("{\"event\": \"ready\", \"pid\": %d, \"threads\": [%u, %u], \"alone_ns\": %llu, \"without_hold_ns\": "
	       "%llu}\n",
	       getpid(), skeleton->bss->threads[0], skeleton->bss->threads[1], alone_ns, without_hold_ns);
	while (next_command(&command))
		run_round(skeleton, workers, command.count, without_hold_ns, alone_ns);
	ending = true;
	pthread_barrier_wait(&barrier);
	for (i = 0; i < 2; i++)
		pthread_join(workers[i].thread, NULL);
	spinlock_bpf__destroy(skeleton);
	return 0;
}
