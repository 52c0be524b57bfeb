// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions that are probed from entry to exit, with and without the tracepoints inside them. */
#include "wait_test.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <unistd.h>

static void every_begin_is_accounted_for(const struct bench *bench)
{
	const __u64 *counters = bench->state->counters;

	CHECK_EQUAL(begins_of_all(bench) + slow_paths_of(bench->state),
		    waits_of_all(bench) + counters[COUNT_REPEATED] + counters[COUNT_FILTERED] +
			    counters[COUNT_ORPHANED] + counters[COUNT_TOO_DEEP] + counters[COUNT_NO_SLOT]);
}

/* What the tracepoints tell inside a probed slow path is the same wait. */
void slow_path_covers_tracepoints(struct bench *bench)
{
	struct wait_row *row;

	run_enter(bench, LOCK(80), KIND_SPINLOCK);
	run_begin(bench, LOCK(80), KIND_SPINLOCK);
	run_end(bench, LOCK(80), 0);
	CHECK_EQUAL(waits_of_all(bench), 0);
	CHECK_EQUAL(bench->state->spin_depth, 1);
	run_leave(bench, LOCK(80));
	row = row_of(bench, LOCK(80), KIND_SPINLOCK);
	CHECK(row && row->waits == 1 && row->wait_ns == 3000, "one wait from entry to exit");
	CHECK_EQUAL(slow_paths_of(bench->state), 1);
	CHECK_EQUAL(bench->state->counters[COUNT_REPEATED], 1);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 0);
	/* The pending waiter: no tracepoint at all, and a return probe that knows no arguments. */
	run_enter(bench, LOCK(81), KIND_SPINLOCK);
	run_leave(bench, 0);
	row = row_of(bench, LOCK(81), KIND_SPINLOCK);
	CHECK(row && row->waits == 1, "the top slow path ended");
	CHECK_EQUAL(bench->state->spin_depth, 0);
	CHECK_EQUAL(begins_of_all(bench) + slow_paths_of(bench->state),
		    waits_of_all(bench) + bench->state->counters[COUNT_REPEATED]);
}

/* The inner lock of a read-locked rwlock, and an interrupt that reads the same one. */
void slow_paths_nest(struct bench *bench)
{
	run_enter(bench, LOCK(82), KIND_RWLOCK_READ);
	run_begin(bench, LOCK(82), KIND_RWLOCK_READ);
	run_enter(bench, LOCK(82) + 4, KIND_SPINLOCK);
	run_leave(bench, LOCK(82) + 4);
	run_enter(bench, LOCK(82), KIND_RWLOCK_READ);
	run_leave(bench, LOCK(82));
	run_end(bench, LOCK(82), 0);
	run_leave(bench, LOCK(82));
	CHECK_EQUAL(waits_of_all(bench), 3);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 0);
	CHECK_EQUAL(bench->state->counters[COUNT_REPEATED], 1);
	CHECK_EQUAL(bench->state->spin_depth, 0);
}

/* A writer that slept: the tracepoints are inside, and of the two ends the first one counts. */
void sleeping_path_covers_tracepoints(struct bench *bench)
{
	struct wait_row *row;

	run_enter_sleeping(bench, LOCK(84), KIND_RWSEM_WRITE);
	run_begin(bench, LOCK(84), KIND_RWSEM_WRITE);
	CHECK_EQUAL(waits_of_all(bench), 0);
	run_end(bench, LOCK(84), -EINTR);
	row = row_of(bench, LOCK(84), KIND_RWSEM_WRITE);
	CHECK(row && row->waits == 1 && row->wait_ns == 2000 && row->failed == 1, "one wait from entry to the end");
	run_leave_sleeping(bench, LOCK(84), -EINTR);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK_EQUAL(slow_paths_of(bench->state), 1);
	CHECK_EQUAL(bench->state->counters[COUNT_REPEATED], 1);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 0);
	CHECK(!sleeper_of(bench, gettid()), "the slot is not free again");
	every_begin_is_accounted_for(bench);
}

/* A writer that won by spinning. */
void sleeping_path_without_tracepoints(struct bench *bench)
{
	struct wait_row *row;

	run_enter_sleeping(bench, LOCK(85), KIND_RWSEM_WRITE);
	run_leave_sleeping(bench, LOCK(85), 0);
	row = row_of(bench, LOCK(85), KIND_RWSEM_WRITE);
	CHECK(row && row->waits == 1 && row->wait_ns == 1000 && !row->failed, "one wait from entry to exit");
	CHECK(!sleeper_of(bench, gettid()), "the slot is not free again");
	every_begin_is_accounted_for(bench);
}

void sleeping_path_survives_lost_ends(struct bench *bench)
{
	/* contention_end was missed: the exit ends the wait. */
	run_enter_sleeping(bench, LOCK(86), KIND_RWSEM_WRITE);
	run_begin(bench, LOCK(86), KIND_RWSEM_WRITE);
	run_leave_sleeping(bench, LOCK(86), 0);
	CHECK_EQUAL(waits_of_all(bench), 1);
	/* The exit was missed: the next wait for that lock is a new one, whatever probe saw it. */
	run_enter_sleeping(bench, LOCK(86), KIND_RWSEM_WRITE);
	bench->skeleton->bss->clock_ns += 3600ull * 1000000000;
	run_enter_sleeping(bench, LOCK(86), KIND_RWSEM_WRITE);
	run_leave_sleeping(bench, LOCK(86), 0);
	CHECK_EQUAL(waits_of_all(bench), 2);
	run_enter_sleeping(bench, LOCK(86), KIND_RWSEM_WRITE);
	bench->skeleton->bss->clock_ns += 3600ull * 1000000000;
	run_begin(bench, LOCK(86), KIND_RWSEM_READ);
	run_end(bench, LOCK(86), 0);
	CHECK_EQUAL(waits_of_all(bench), 3);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 2);
	CHECK(row_of(bench, LOCK(86), KIND_RWSEM_WRITE)->max_ns < 10000, "a lost wait became one of an hour");
	/* The entry was missed: the tracepoints make the wait. */
	run_begin(bench, LOCK(86), KIND_RWSEM_WRITE);
	run_end(bench, LOCK(86), 0);
	run_leave_sleeping(bench, LOCK(86), 0);
	CHECK_EQUAL(waits_of_all(bench), 4);
	every_begin_is_accounted_for(bench);
}

/* The spinlock inside an rwsem; the mutex that a wait for RCU takes inside a percpu-rwsem. */
void sleeping_paths_nest(struct bench *bench)
{
	run_enter_sleeping(bench, LOCK(87), KIND_RWSEM_WRITE);
	run_enter(bench, LOCK(87) + 16, KIND_SPINLOCK);
	run_leave(bench, LOCK(87) + 16);
	run_leave_sleeping(bench, LOCK(87), 0);
	CHECK_EQUAL(waits_of_all(bench), 2);
	run_enter_sleeping(bench, LOCK(88), KIND_PERCPU_RWSEM_WRITE);
	run_begin(bench, LOCK(89), KIND_MUTEX_SPIN);
	run_end(bench, LOCK(89), 0);
	run_begin(bench, LOCK(88), KIND_PERCPU_RWSEM_WRITE);
	run_end(bench, LOCK(88), 0);
	run_leave_sleeping(bench, LOCK(88), 0);
	CHECK_EQUAL(waits_of_all(bench), 4);
	CHECK_EQUAL(bench->state->counters[COUNT_ORPHANED], 0);
	every_begin_is_accounted_for(bench);
}

void sleeping_paths_are_filtered(struct bench *bench)
{
	run_enter_sleeping(bench, LOCK(90), KIND_PERCPU_RWSEM_WRITE);
	run_leave_sleeping(bench, LOCK(90), 0);
	CHECK_EQUAL(waits_of_all(bench), 0);
	CHECK_EQUAL(bench->state->counters[COUNT_FILTERED], 1);
	run_enter_sleeping(bench, LOCK(90), KIND_RWSEM_WRITE);
	run_leave_sleeping(bench, LOCK(90), 0);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK_EQUAL(bench->state->counters[COUNT_UNMATCHED], 0);
	every_begin_is_accounted_for(bench);
}

/* libbpf marks the call of a function that this kernel lacks by such a number (from 1.2 on). */
#define MISSING_FUNCTION 2002000000

static bool is_kernel_function(const struct bpf_insn *call)
{
	return call->src_reg == BPF_PSEUDO_KFUNC_CALL || call->imm >= MISSING_FUNCTION;
}

/* Whether all that a program calls lies between two calls of the kernel's functions: preemption off, and on. */
static bool calls_without_preemption(const struct bpf_program *program)
{
	const struct bpf_insn *insns = bpf_program__insns(program);
	int first = -1, last = -1;

	for (size_t i = 0; i < bpf_program__insn_cnt(program); i++) {
		/* Appended functions come after the program's end. */
		if (insns[i].code == (BPF_JMP | BPF_EXIT))
			break;
		if (insns[i].code != (BPF_JMP | BPF_CALL))
			continue;
		first = first < 0 ? (int)i : first;
		last = i;
	}
	return last > first && is_kernel_function(&insns[first]) && is_kernel_function(&insns[last]);
}

/* Filters walk cgroups: a waiter that is preempted there keeps the program from all other tasks of its CPU. */
void sleepers_stay_on_their_cpu(struct bench *bench)
{
	CHECK(calls_without_preemption(bench->skeleton->progs.begin_mutex), "a begin can be preempted");
	CHECK(calls_without_preemption(bench->skeleton->progs.run_enter_sleeping), "an entry can be preempted");
	CHECK(calls_without_preemption(bench->skeleton->progs.run_leave_sleeping), "an exit can be preempted");
}
