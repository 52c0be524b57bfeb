// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "probes/probes.h"
#include "recording/recording_rows.h"
#include "sleeps/file_locks.h"
#include "sleeps/sleep_rows.h"
#include "sleeps/sleeps.h"

/* Threads that a look reads, and those that it chooses them from. */
#define MOST_THREADS 200
#define MOST_LISTED  32768
/* The time between two looks is a part of what is recorded already, and no less than this. */
#define LEAST_PAUSE_NS 500000000ull
#define PART_OF_TIME   8
#define MOST_WAITS     32
/* Each read of /proc/locks stops who locks files for a moment. */
#define MOST_READS_OF_LOCKS 5

struct thread {
	__u32 tgid;
	__u32 tid;
};

/* A wait for a lock on a file, and at how many reads it was there. */
struct file_row {
	struct file_lock_wait wait;
	char waiter_comm[COMM_NAME];
	char holder_comm[COMM_NAME];
	__u64 seen;
};

struct sleeps {
	struct recording *recording;
	const struct options *options;
	const struct probes *probes;
	bool changed; /* since the last flush */
	__u64 begin_ns, next_ns;
	__u64 looks, looked, there, reads_of_locks, own_cpu_ns;
	__u64 cpu_ticks_before, cpu_ticks, cpu_span_ns; /* of the chosen processes */
	struct thread *threads;
	int thread_count;
	struct sleep_rows rows;
	struct file_row waits[MOST_WAITS];
	int wait_count;
};

int sleeps_open(struct sleeps **out, const struct options *options, const struct probes *probes,
		struct recording *recording)
{
	struct sleeps *sleeps = calloc(1, sizeof(*sleeps));

	if (!sleeps)
		return -ENOMEM;
	sleeps->options = options;
	sleeps->probes = probes;
	sleeps->recording = recording;
	sleeps->threads = calloc(MOST_LISTED, sizeof(*sleeps->threads));
	if (!sleeps->threads) {
		free(sleeps);
		return -ENOMEM;
	}
	*out = sleeps;
	return 0;
}

void sleeps_close(struct sleeps *sleeps)
{
	if (sleeps)
		free(sleeps->threads);
	free(sleeps);
}

static void add_thread(struct sleeps *sleeps, __u32 tgid, __u32 tid)
{
	if (sleeps->thread_count < MOST_LISTED)
		sleeps->threads[sleeps->thread_count++] = (struct thread){tgid, tid};
}

static void add_threads(struct sleeps *sleeps, __u32 tgid)
{
	DIR *directory = proc_open_directory(tgid, "task");
	__u32 tid;

	while (directory && (tid = proc_next(directory)))
		add_thread(sleeps, tgid, tid);
	if (directory)
		closedir(directory);
}

/* What chosen processes have used, with children that they have waited for. */
static void add_cpu_time(struct sleeps *sleeps, __u32 pid)
{
	struct process_stat stat;

	if (!process_stat_read(pid, &stat))
		sleeps->cpu_ticks += stat.cpu_ticks;
}

/* Those of the machine: of a large one some processes, chosen by chance, stand for all; returns one in how many. */
static __u32 list_machine(struct sleeps *sleeps)
{
	const __u32 one_in = proc_threads() / (2 * MOST_THREADS) + 1;
	DIR *proc = opendir("/proc");
	__u32 pid;

	/* What threads of the kernel sleep in is their own affair. */
	while (proc && (pid = proc_next(proc)))
		if (pid != (__u32)getpid() && !(random() % one_in) && proc_has_program(pid))
			add_threads(sleeps, pid);
	if (proc)
		closedir(proc);
	return one_in;
}

static void list_chosen(struct sleeps *sleeps)
{
	const struct id_list *tids = &sleeps->options->tids;
	DIR *proc = opendir("/proc");
	__u32 pid, tgid;

	sleeps->cpu_ticks = 0;
	while (proc && (pid = proc_next(proc)))
		if (probes_followed(sleeps->probes, pid)) {
			add_threads(sleeps, pid);
			add_cpu_time(sleeps, pid);
		}
	if (proc)
		closedir(proc);
	for (size_t i = 0; i < tids->count; i++)
		if (!task_leader(tids->ids[i], &tgid))
			add_thread(sleeps, tgid, tids->ids[i]);
}

static void count(struct sleeps *sleeps, const struct thread *thread, const char *function)
{
	struct sleep_row *row;

	if (sleep_rows_count(&sleeps->rows, thread->tgid, function, &row))
		proc_comm(thread->tgid, row->comm, sizeof(row->comm));
}

static void count_wait(struct sleeps *sleeps, const struct file_lock_wait *wait)
{
	struct file_row *row = sleeps->waits, *end = sleeps->waits + sleeps->wait_count;

	while (row < end && (row->wait.waiter != wait->waiter || row->wait.holder != wait->holder ||
			     strcmp(row->wait.file, wait->file)))
		row++;
	if (row == end) {
		if (sleeps->wait_count == MOST_WAITS)
			return;
		sleeps->wait_count++;
		row->wait = *wait;
		proc_comm(wait->waiter, row->waiter_comm, sizeof(row->waiter_comm));
		if (wait->holder)
			proc_comm(wait->holder, row->holder_comm, sizeof(row->holder_comm));
	}
	row->seen++;
}

static void look_at_file_locks(struct sleeps *sleeps)
{
	struct file_lock_wait found[MOST_WAITS];
	int count;

	if (sleeps->reads_of_locks == MOST_READS_OF_LOCKS)
		return;
	sleeps->reads_of_locks++;
	count = file_locks_read(found, MOST_WAITS);
	for (int i = 0; i < count; i++)
		count_wait(sleeps, &found[i]);
}

void sleeps_begin(struct sleeps *sleeps, __u64 now_ns)
{
	sleeps->begin_ns = now_ns;
	sleeps->next_ns = now_ns + LEAST_PAUSE_NS;
	if (!sleeps->options->all)
		list_chosen(sleeps);
	sleeps->cpu_ticks_before = sleeps->cpu_ticks;
}

static void look(struct sleeps *sleeps, __u64 now_ns)
{
	const __u64 elapsed_ns = now_ns - sleeps->begin_ns, before = sleeps->looked;
	__u32 one_in = 1, step, first;
	bool file_lock = false;

	sleeps->next_ns =
		now_ns + (elapsed_ns / PART_OF_TIME > LEAST_PAUSE_NS ? elapsed_ns / PART_OF_TIME : LEAST_PAUSE_NS);
	sleeps->thread_count = 0;
	if (sleeps->options->all)
		one_in = list_machine(sleeps);
	else
		list_chosen(sleeps);
	/* Those of COMMAND are gone by then: what was known before stands. */
	if (!sleeps->thread_count)
		return;
	sleeps->cpu_span_ns = elapsed_ns;
	step = (sleeps->thread_count + MOST_THREADS - 1) / MOST_THREADS;
	first = random() % step;
	for (int i = first; i < sleeps->thread_count; i += step) {
		const struct thread *thread = &sleeps->threads[i];
		char path[PROC_PATH], function[FUNCTION_NAME];

		snprintf(path, sizeof(path), "task/%u/wchan", thread->tid);
		if (proc_read(thread->tgid, path, function, sizeof(function)) < 0)
			continue;
		sleeps->looked++;
		/* "0": it runs, or could. */
		count(sleeps, thread, strcmp(function, "0") ? function : "");
		file_lock |= file_lock_may_wait(function);
	}
	sleeps->there += (__u64)one_in * sleeps->thread_count;
	sleeps->looks += sleeps->looked > before;
	/* A look at some of a machine's threads may miss all who wait. */
	if (file_lock || (sleeps->options->all && (one_in > 1 || step > 1)))
		look_at_file_locks(sleeps);
	sleeps->changed = true;
}

void sleeps_look(struct sleeps *sleeps, __u64 now_ns, bool last)
{
	__u64 before_ns;

	if (now_ns < sleeps->next_ns && !last)
		return;
	before_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	look(sleeps, now_ns);
	sleeps->own_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
}

static int put_row(struct sleeps *sleeps, const struct sleep_row *row)
{
	return recording_put(sleeps->recording, sleeper, .tgid = row->tgid, .comm = row->comm,
			     .function = row->function, .seen = row->seen);
}

static int put_numbers(struct sleeps *sleeps)
{
	struct recording *recording = sleeps->recording;
	const __u64 tick_ns = 1000000000ull / sysconf(_SC_CLK_TCK);
	__u64 ticks = 0;
	int err = recording_put_number(recording, "sleep_looks", sleeps->looks);

	err = err ?: recording_put_number(recording, "sleep_threads_looked_at", sleeps->looked);
	err = err ?: recording_put_number(recording, "sleep_threads", sleeps->there);
	err = err ?: recording_put_number(recording, "file_lock_reads", sleeps->reads_of_locks);
	err = err
		      ?: recording_put(recording, cost, .name = "sleep_looks_cpu_ns", .value = sleeps->own_cpu_ns,
				       .unit = "ns");
	if (err || sleeps->options->all || sleeps->options->tids.count)
		return err;
	if (sleeps->cpu_ticks > sleeps->cpu_ticks_before)
		ticks = sleeps->cpu_ticks - sleeps->cpu_ticks_before;
	err = recording_put_number(recording, "chosen_cpu_ns", ticks * tick_ns);
	return err ?: recording_put_number(recording, "chosen_cpu_span_ns", sleeps->cpu_span_ns);
}

int sleeps_flush(struct sleeps *sleeps)
{
	int err = 0;

	if (!sleeps->changed)
		return 0;
	for (int i = 0; !err && i < sleeps->rows.row_count; i++)
		err = put_row(sleeps, &sleeps->rows.rows[i]);
	for (int i = 0; !err && i < sleeps->rows.shared_count; i++)
		err = put_row(sleeps, &sleeps->rows.shared[i]);
	for (int i = 0; !err && i < sleeps->wait_count; i++) {
		const struct file_row *row = &sleeps->waits[i];

		err = recording_put(sleeps->recording, file_lock_wait, .file = row->wait.file,
				    .waiter = row->wait.waiter, .waiter_comm = row->waiter_comm,
				    .holder = row->wait.holder, .holder_comm = row->holder_comm, .seen = row->seen);
	}
	err = err ?: put_numbers(sleeps);
	sleeps->changed = err;
	return err;
}
