// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory samples made up, through the program that takes them and the
 * collector's sums, into a recording: what a machine with such a PMU would
 * give.  To load the programs takes a hundred times as long as to feed them, so
 * they are loaded once.  Argument: a copy of /proc/kallsyms.  Standard input has
 * lines of two paths, divided by a tab: of the commands, and of the recording
 * that they make, in a process of its own and from empty maps.  For each it
 * prints the state's counters as JSON, unless the process died, and then its
 * status as of wait().  Commands, one per line, numbers in any base of C:
 *
 *	begin LOCK KIND		a wait begins, on this CPU, of this task
 *	end LOCK
 *	sample ADDRESS IP DATA_SRC WEIGHT FLAGS
 *	own DATA_SRC		this program's own code on its own variable, feed_line
 *	anonymous DATA_SRC	on memory without a file
 *	busy 0|1		as inside of another sample
 *	window 0|1		of the recording
 *	filter 0|1		this task is not wanted
 *	drain			the collector looks at the ring
 *	forget			a slot's owner is somebody else, as after a lost end
 *	keep ACCESSES		that the recording has room for
 *	later ADDRESS IP DATA_SRC WEIGHT FLAGS	a sample in the midst of the next write, or behind it
 *	write			the tables, as at the end of an interval
 *	die			by SIGKILL
 */
#include "wait_test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/patience.h"
#include "memory/live_sums.h"
#include "helper/naming_helper.h"
#include "names/symbols.h"
#include "recording/recording_rows.h"

int test_failures;
int test_checks;

#define LOCKS 16
#define LATER 4096

/* Named, so that a recording can be asked for it. */
__u64 feed_line[16] __attribute__((aligned(64))) = {1};

struct feed {
	struct bench bench;
	struct live_sums sums;
	struct recording *recording;
	__u64 read; /* position in the ring */
	__u64 overwritten;
	__u64 locks[LOCKS];
	void *anonymous;
	__u64 later[LATER][5];
	int later_first;
	int later_end;
};

static void check(const char *what, int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	exit(1);
}

static void drain(struct feed *feed)
{
	__u64 written = feed->bench.memory->records;

	if (written - feed->read > MEMORY_RING_SAMPLES) {
		feed->overwritten += written - feed->read - MEMORY_RING_SAMPLES;
		feed->read = written - MEMORY_RING_SAMPLES;
	}
	for (; feed->read < written; feed->read++) {
		const struct memory_record *record =
			&feed->bench.memory_records[feed->read & (MEMORY_RING_SAMPLES - 1)];

		if (record->sequence != feed->read + 1)
			check("a record's sequence", -EINVAL);
		check("sums", live_sums_add(&feed->sums, TEST_CPU, record));
	}
}

static void run_sample(struct feed *feed, const __u64 *values)
{
	run_memory(&feed->bench, values[0], values[1], values[2], values[3], values[4]);
}

/* Locks get rows as they come. */
static __s64 lock_id(void *context, __u64 address, __u32 kind)
{
	struct feed *feed = context;
	int i = 0, err;

	while (i < LOCKS - 1 && feed->locks[i] && feed->locks[i] != address)
		i++;
	if (feed->locks[i] == address)
		return i + 1;
	feed->locks[i] = address;
	err = recording_put(feed->recording, lock, .id = i + 1, .address = address, .name = "a_lock", .instance = "",
			    .source = "symbol");
	return err ?: i + 1;
}

/* The next sample that was left for later. */
static int pause_feed(void *context)
{
	struct feed *feed = context;

	if (feed->later_first == feed->later_end)
		return 0;
	run_sample(feed, feed->later[feed->later_first++]);
	drain(feed);
	return 0;
}

static void write_tables(struct feed *feed, bool last)
{
	const struct memory_locks locks = {.id = lock_id, .context = feed};
	const struct pmu_plan pmu = {.count = 2,
				     .events = {{.name = "cpu/mem-loads,ldlat=30/P"}, {.name = "ibs_op//"}}};
	const struct live_sums_write to = {.recording = feed->recording,
					   .pmu = &pmu,
					   .locks = &locks,
					   .turn = {.pause = pause_feed, .context = feed, .last = last}};
	struct memory_rank rank = {};

	drain(feed);
	check("the tables", live_sums_write(&feed->sums, &to, &rank));
	check("what is left out", recording_put(feed->recording, loss, .name = "records_left_out",
						.count = rank.records_left_out, .meaning = "", .severity = "info"));
	memory_rank_free(&rank);
	check("a commit", recording_commit(feed->recording));
	while (feed->later_first < feed->later_end)
		pause_feed(feed);
	feed->later_first = feed->later_end = 0;
}

static void put_later(struct feed *feed, const __u64 *values)
{
	if (feed->later_end == LATER)
		check("later", -ENOSPC);
	memcpy(feed->later[feed->later_end++], values, sizeof(feed->later[0]));
}

/* The filter is always there: whether it lets this process through. */
static void let_through(struct bench *bench, bool wanted)
{
	__u64 *word = &bench->task_filter[getpid() / 64], bit = 1ull << getpid() % 64;

	*word = wanted ? *word | bit : *word & ~bit;
}

void feed_command(struct feed *feed, const char *word, const __u64 *values)
{
	const __u64 own = (__u64)feed_command;
	struct bench *bench = &feed->bench;

	if (!strcmp(word, "begin"))
		run_begin(bench, values[0], values[1]);
	else if (!strcmp(word, "end"))
		run_end(bench, values[0], 0);
	else if (!strcmp(word, "sample"))
		run_sample(feed, values);
	else if (!strcmp(word, "own"))
		run_memory(bench, (__u64)&feed_line[2], own, values[0], 0, 0);
	else if (!strcmp(word, "anonymous"))
		run_memory(bench, (__u64)feed->anonymous, own, values[0], 0, 0);
	else if (!strcmp(word, "busy"))
		bench->memory->busy = values[0];
	else if (!strcmp(word, "window"))
		bench->state->begin_kinds = values[0] ? ~0u : 0;
	else if (!strcmp(word, "filter"))
		let_through(bench, !values[0]);
	else if (!strcmp(word, "drain"))
		drain(feed);
	else if (!strcmp(word, "forget"))
		bench->state->spin[0].task = 1;
	else if (!strcmp(word, "keep"))
		feed->sums.kept = values[0];
	else if (!strcmp(word, "later"))
		put_later(feed, values);
	else if (!strcmp(word, "write"))
		write_tables(feed, false);
	else if (!strcmp(word, "die"))
		kill(getpid(), SIGKILL);
	else
		check(word, -EINVAL);
}

/* Standard input is left to the process that made this one. */
static void feed_recording(struct feed *feed, const char *commands, const char *recording)
{
	const struct memory_state *state;
	char line[256];
	FILE *file;

	file = fopen(commands, "re");
	check("the commands", file ? 0 : -errno);
	check("the recording", recording_create(&feed->recording, recording));
	while (fgets(line, sizeof(line), file)) {
		char *state_of_words, *word = strtok_r(line, " \n", &state_of_words), *number;
		__u64 values[5] = {};

		for (int i = 0; i < 5 && (number = strtok_r(NULL, " \n", &state_of_words)); i++)
			values[i] = strtoull(number, NULL, 0);
		if (word)
			feed_command(feed, word, values);
	}
	fclose(file);
	write_tables(feed, true);
	check("the recording's end", recording_finish(feed->recording));
	state = feed->bench.memory;
	printf("{\"samples\": %llu, \"records\": %llu, \"without_source\": %llu, \"without_address\": %llu, "
	       "\"filtered\": %llu, \"nested\": %llu, \"overwritten\": %llu}\n",
	       state->samples, state->records, state->without_source, state->without_address, state->filtered,
	       state->nested, feed->overwritten);
	live_sums_close(&feed->sums);
	fflush(stdout);
}

/* Its status as of wait(). */
static int feed_apart(struct feed *feed, const struct symbols *symbols, const char *commands, const char *recording)
{
	pid_t child = fork();
	int status;

	check("a process", child < 0 ? -errno : 0);
	if (!child) {
		let_through(&feed->bench, true);
		check("sums", live_sums_open(&feed->sums, symbols, 1));
		feed_recording(feed, commands, recording);
		_exit(0);
	}
	check("the end of a process", waitpid(child, &status, 0) < 0 ? -errno : 0);
	return status;
}

int main(int argc, char **argv)
{
	const struct settings settings = {.threshold_ns = NEVER_OUTLIER,
					  .begin_kinds = ~0u,
					  .wait_kinds = ~0u,
					  .filter_tasks = true,
					  .memory_alone = true};
	struct feed *feed = calloc(1, sizeof(*feed));
	char *line = NULL, *commands, *recording;
	struct symbols *symbols;
	size_t room = 0;
	cpu_set_t cpu;

	if (patience_reader_wanted(argc, argv))
		return patience_reader_main();
	if (naming_helper_wanted(argc, argv))
		return naming_helper_main();
	if (argc != 2 || !feed)
		return 1;
	CPU_ZERO(&cpu);
	CPU_SET(TEST_CPU, &cpu);
	check("this CPU", sched_setaffinity(0, sizeof(cpu), &cpu) ? -errno : 0);
	feed->anonymous = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check("memory", feed->anonymous == MAP_FAILED ? -errno : 0);
	bench_open(&feed->bench, &settings);
	check("the kernel's symbols", symbols_open_file(&symbols, argv[1]));
	while (getline(&line, &room, stdin) > 0) {
		commands = strtok(line, "\t\n");
		recording = strtok(NULL, "\t\n");
		check("two paths", recording ? 0 : -EINVAL);
		bench_clear(&feed->bench, &settings);
		printf("status %d\n", feed_apart(feed, symbols, commands, recording));
		fflush(stdout);
	}
	free(line);
	symbols_close(symbols);
	bench_close(&feed->bench);
	free(feed);
	return 0;
}
