// SPDX-License-Identifier: GPL-2.0-or-later
#include "wait_test.h"
#include "current_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

static void refuse(const char *what, int error)
{
	printf("Bail out! %s: %s\n", what, strerror(error));
	exit(1);
}

static size_t map_bytes(const struct bpf_map *map)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t bytes = (size_t)bpf_map__max_entries(map) * ((bpf_map__value_size(map) + 7) & ~7u);

	return (bytes + page - 1) / page * page;
}

static void *map_memory(const struct bpf_map *map)
{
	void *memory = mmap(NULL, map_bytes(map), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	if (memory == MAP_FAILED)
		refuse("cannot map a BPF array", errno);
	return memory;
}

/* The verifier takes most of the time of a short test. */
static void leave_out_all_but_memory(const struct wait_test_bpf *skeleton)
{
	struct bpf_program *program = NULL;

	while ((program = bpf_object__next_program(skeleton->obj, program))) {
		bool needed = program == skeleton->progs.run_memory || program == skeleton->progs.run_begin ||
			      program == skeleton->progs.run_end;

		bpf_program__set_autoload(program, needed);
	}
}

bool plain_waits = true;

/* As the collector has it (probes.c). */
static __u32 flags_of(const struct wait_test_bpf *skeleton, const struct settings *settings)
{
	bool plain = plain_waits && !skeleton->rodata->count_waiters && settings->begin_kinds == settings->wait_kinds;

	return begin_flags(plain, skeleton->rodata->filtered, skeleton->rodata->record_holdings, false);
}

/* Found once: it takes a load of the product's programs. */
static __u64 current_word(void)
{
	static const __u64 *words;

	if (!words)
		words = find_current_words();
	if (!words)
		refuse("cannot look for the current task", errno);
	return words[TEST_CPU];
}

/* What every test begins with, beside zeros. */
static void bench_start(struct bench *bench, const struct settings *settings)
{
	bench->skeleton->bss->clock_ns = 3600ull * 1000000000;
	bench->state->row_base = TEST_CPU * TEST_ROWS;
	bench->state->sleep_bits = __builtin_ctz(TEST_SLEEP);
	bench->state->named_rows = TEST_ROWS - KIND_COUNT;
	bench->state->sample_mask = TEST_SAMPLE - 1;
	bench->state->begin_kinds = settings->begin_kinds & ((1u << KIND_COUNT) - 1);
	bench->state->begin_kinds |= flags_of(bench->skeleton, settings);
	bench->state->found_word = current_word();
	bench->state->flags = settings->filter_tasks ? STATE_FILTERED : 0;
	bench->state->threshold_ns = settings->threshold_ns;
	bench->state->stack_tokens = ~0u;
	bench->question_state->tokens = QUESTION_TOKENS;
	bench->releases->stack_tokens = RELEASE_TOKENS;
}

void bench_open(struct bench *bench, const struct settings *settings)
{
	struct wait_test_bpf *skeleton = wait_test_bpf__open();
	int cpus = libbpf_num_possible_cpus(), error;

	if (!skeleton)
		refuse("cannot open the programs", errno);
	skeleton->rodata->ring_mask = TEST_RING - 1;
	skeleton->rodata->sleep_mask = TEST_SLEEP - 1;
	skeleton->rodata->wait_kinds = settings->wait_kinds;
	skeleton->rodata->filtered = settings->filter_tasks || settings->filter_locks || settings->filter_callers;
	skeleton->rodata->filter_tasks = settings->filter_tasks;
	skeleton->rodata->filter_locks = settings->filter_locks;
	skeleton->rodata->filter_lock_names = settings->filter_lock_names;
	skeleton->rodata->lock_range_count = settings->filter_locks;
	skeleton->rodata->lock_range_begin[0] = ONE_LOCK;
	skeleton->rodata->lock_range_bytes[0] = ONE_LOCK_BYTES;
	skeleton->rodata->filter_callers = settings->filter_callers;
	skeleton->rodata->caller_range_count = TEST_CALLERS;
	bpf_map__set_max_entries(skeleton->maps.lock_verdicts, VERDICT_SLOTS);
	bpf_map__set_max_entries(skeleton->maps.lock_questions, cpus * QUESTIONS);
	bpf_map__set_max_entries(skeleton->maps.question_states, cpus);
	bpf_map__set_max_entries(skeleton->maps.caller_ranges, TEST_CALLERS);
	skeleton->rodata->holding_mask = TEST_HOLDINGS - 1;
	skeleton->rodata->wake_mask = TEST_HOLDINGS / WAKE_PARTS - 1;
	skeleton->rodata->context_mask = TEST_CONTEXT - 1;
	skeleton->rodata->context_cpus = TEST_IPI_CPUS;
	skeleton->rodata->record_holdings = settings->holders;
	skeleton->rodata->count_waiters = settings->count_waiters;
	skeleton->rodata->measure_holds = settings->holders;
	bpf_map__set_max_entries(skeleton->maps.holding_records, cpus * TEST_HOLDINGS);
	bpf_map__set_max_entries(skeleton->maps.holding_wakes, cpus);
	bpf_map__set_max_entries(skeleton->maps.release_states, cpus);
	bpf_map__set_max_entries(skeleton->maps.release_stacks, cpus * RELEASE_STACKS);
	bpf_map__set_max_entries(skeleton->maps.sleep_owners, TEST_SLEEP * SLEEP_DEPTH);
	bpf_map__set_max_entries(skeleton->maps.waiter_counts, WAITER_COUNTS);
	bpf_map__set_max_entries(skeleton->maps.focus, FOCUS_LOCKS);
	bpf_map__set_max_entries(skeleton->maps.hold_rows, cpus * FOCUS_LOCKS);
	bpf_map__set_max_entries(skeleton->maps.context_records, cpus * TEST_CONTEXT);
	bpf_map__set_max_entries(skeleton->maps.context_states, cpus);
	bpf_map__set_max_entries(skeleton->maps.memory_states, cpus);
	bpf_map__set_max_entries(skeleton->maps.memory_records, cpus * MEMORY_RING_SAMPLES);
	bpf_map__set_max_entries(skeleton->maps.cpu_states, cpus);
	bpf_map__set_max_entries(skeleton->maps.totals, cpus * TEST_ROWS);
	bpf_map__set_max_entries(skeleton->maps.sleepers, TEST_SLEEP);
	bpf_map__set_max_entries(skeleton->maps.spin_stacks, cpus * SPIN_DEPTH);
	bpf_map__set_max_entries(skeleton->maps.sleep_stacks, TEST_SLEEP * SLEEP_DEPTH);
	bpf_map__set_max_entries(skeleton->maps.wait_events, cpus * TEST_RING);
	bpf_map__set_max_entries(skeleton->maps.task_filter, 2 * TASK_FILTER_WORDS);
	if (settings->memory_alone)
		leave_out_all_but_memory(skeleton);
	error = wait_test_bpf__load(skeleton);
	if (error)
		refuse("cannot load the programs", -error);
	bench->skeleton = skeleton;
	bench->state = (struct cpu_state *)map_memory(skeleton->maps.cpu_states) + TEST_CPU;
	bench->rows = (struct wait_row *)map_memory(skeleton->maps.totals) + TEST_CPU * TEST_ROWS;
	bench->sleepers = map_memory(skeleton->maps.sleepers);
	bench->task_filter = map_memory(skeleton->maps.task_filter);
	bench->events = (struct wait_event *)map_memory(skeleton->maps.wait_events) + TEST_CPU * TEST_RING;
	bench->verdicts = map_memory(skeleton->maps.lock_verdicts);
	bench->questions = (struct lock_question *)map_memory(skeleton->maps.lock_questions) + TEST_CPU * QUESTIONS;
	bench->question_state = (struct question_state *)map_memory(skeleton->maps.question_states) + TEST_CPU;
	bench->callers = map_memory(skeleton->maps.caller_ranges);
	bench->holdings =
		(struct holding_record *)map_memory(skeleton->maps.holding_records) + TEST_CPU * TEST_HOLDINGS;
	bench->releases = (struct release_state *)map_memory(skeleton->maps.release_states) + TEST_CPU;
	bench->holds = (struct hold_row *)map_memory(skeleton->maps.hold_rows) + TEST_CPU * FOCUS_LOCKS;
	bench->focus = map_memory(skeleton->maps.focus);
	bench->contexts = (struct context_record *)map_memory(skeleton->maps.context_records) + TEST_CPU * TEST_CONTEXT;
	bench->context_state = (struct context_state *)map_memory(skeleton->maps.context_states) + TEST_CPU;
	bench->memory = (struct memory_state *)map_memory(skeleton->maps.memory_states) + TEST_CPU;
	bench->memory_records =
		(struct memory_record *)map_memory(skeleton->maps.memory_records) + TEST_CPU * MEMORY_RING_SAMPLES;
	bench_start(bench, settings);
}

void bench_clear(struct bench *bench, const struct settings *settings)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, bench->skeleton->obj)
	{
		void *memory;

		if (bpf_map__map_flags(map) & BPF_F_RDONLY_PROG || bpf_map__type(map) == BPF_MAP_TYPE_PERF_EVENT_ARRAY)
			continue;
		/* Arrays all of them; another kind is refused here. */
		memory = map_memory(map);
		memset(memory, 0, map_bytes(map));
		munmap(memory, map_bytes(map));
	}
	bench_start(bench, settings);
}

void bench_close(struct bench *bench)
{
	munmap(bench->state - TEST_CPU, map_bytes(bench->skeleton->maps.cpu_states));
	munmap(bench->rows - TEST_CPU * TEST_ROWS, map_bytes(bench->skeleton->maps.totals));
	munmap(bench->task_filter, map_bytes(bench->skeleton->maps.task_filter));
	munmap(bench->sleepers, map_bytes(bench->skeleton->maps.sleepers));
	munmap(bench->events - TEST_CPU * TEST_RING, map_bytes(bench->skeleton->maps.wait_events));
	munmap(bench->verdicts, map_bytes(bench->skeleton->maps.lock_verdicts));
	munmap(bench->questions - TEST_CPU * QUESTIONS, map_bytes(bench->skeleton->maps.lock_questions));
	munmap(bench->question_state - TEST_CPU, map_bytes(bench->skeleton->maps.question_states));
	munmap(bench->callers, map_bytes(bench->skeleton->maps.caller_ranges));
	munmap(bench->holdings - TEST_CPU * TEST_HOLDINGS, map_bytes(bench->skeleton->maps.holding_records));
	munmap(bench->releases - TEST_CPU, map_bytes(bench->skeleton->maps.release_states));
	munmap(bench->holds - TEST_CPU * FOCUS_LOCKS, map_bytes(bench->skeleton->maps.hold_rows));
	munmap(bench->focus, map_bytes(bench->skeleton->maps.focus));
	munmap(bench->contexts - TEST_CPU * TEST_CONTEXT, map_bytes(bench->skeleton->maps.context_records));
	munmap(bench->context_state - TEST_CPU, map_bytes(bench->skeleton->maps.context_states));
	munmap(bench->memory - TEST_CPU, map_bytes(bench->skeleton->maps.memory_states));
	munmap(bench->memory_records - TEST_CPU * MEMORY_RING_SAMPLES, map_bytes(bench->skeleton->maps.memory_records));
	wait_test_bpf__destroy(bench->skeleton);
}

static __u32 run(const struct bpf_program *program, __u64 *arguments, __u32 count)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = count * sizeof(*arguments),
		    .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = TEST_CPU);
	int error = bpf_prog_test_run_opts(bpf_program__fd(program), &options);

	if (error)
		refuse("cannot run a program", -error);
	return options.retval;
}

/* Time passes from one call to the next. */
#define STEP_NS 1000

void run_begin(struct bench *bench, __u64 lock, enum lock_kind kind)
{
	__u64 arguments[] = {lock, kind};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_begin, arguments, 2);
}

void run_context(struct bench *bench, enum context_type type, __u32 value, bool other)
{
	__u64 arguments[] = {type, value, other};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_context, arguments, 3);
}

void run_ipis(struct bench *bench, __u64 mask)
{
	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_ipis, &mask, 1);
}

void run_unlock(struct bench *bench, __u64 lock, __u32 word)
{
	__u64 arguments[] = {lock, word};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_unlock, arguments, 2);
}

void run_memory(struct bench *bench, __u64 address, __u64 ip, __u64 data_src, __u32 weight, __u32 flags)
{
	__u64 arguments[] = {address, ip, data_src, 0, weight, flags};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_memory, arguments, 6);
}

void run_locked(struct bench *bench, __u64 lock)
{
	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_locked, &lock, 1);
}

void run_end(struct bench *bench, __u64 lock, int result)
{
	__u64 arguments[] = {lock, result};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_end, arguments, 2);
}

void run_enter(struct bench *bench, __u64 lock, enum lock_kind kind)
{
	__u64 arguments[] = {lock, kind};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_enter, arguments, 2);
}

void run_leave(struct bench *bench, __u64 lock)
{
	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_leave, &lock, 1);
}

void run_enter_sleeping(struct bench *bench, __u64 lock, enum lock_kind kind)
{
	__u64 arguments[] = {lock, kind};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_enter_sleeping, arguments, 2);
}

void run_leave_sleeping(struct bench *bench, __u64 lock, int result)
{
	__u64 arguments[] = {lock, result};

	bench->skeleton->bss->clock_ns += STEP_NS;
	run(bench->skeleton->progs.run_leave_sleeping, arguments, 2);
}

void run_wait(struct bench *bench, __u64 lock, enum lock_kind kind, __u64 wait_ns)
{
	run_begin(bench, lock, kind);
	bench->skeleton->bss->clock_ns += wait_ns - STEP_NS;
	run_end(bench, lock, 0);
}

__u32 run_bucket(struct bench *bench, __u64 ns)
{
	return run(bench->skeleton->progs.run_bucket, &ns, 1);
}

struct wait_row *row_of(struct bench *bench, __u64 lock, enum lock_kind kind)
{
	int i;

	for (i = 0; i < TEST_ROWS - KIND_COUNT; i++)
		if (bench->rows[i].key == row_key(lock, kind))
			return &bench->rows[i];
	return NULL;
}

struct wait_row *other_row_of(struct bench *bench, enum lock_kind kind)
{
	return &bench->rows[TEST_ROWS - KIND_COUNT + kind];
}

struct sleep_slot *sleeper_of(struct bench *bench, __u32 tid)
{
	int i;

	for (i = 0; i < TEST_SLEEP; i++)
		if (bench->sleepers[i].tid == tid)
			return &bench->sleepers[i];
	return NULL;
}

__u64 waits_of_all(const struct bench *bench)
{
	__u64 waits = 0;
	int i;

	for (i = 0; i < TEST_ROWS; i++)
		waits += bench->rows[i].waits;
	return waits;
}

__u64 begins_of_all(const struct bench *bench)
{
	__u64 begins = 0;
	int i;

	for (i = 0; i < KIND_COUNT; i++)
		begins += bench->state->begins[i];
	return begins;
}

void run_place_stack(struct bench *bench)
{
	run(bench->skeleton->progs.run_place_stack, (__u64[]){0}, 1);
}

__u32 run_learn_stack(struct bench *bench, __u32 depth, __u32 count)
{
	return run(bench->skeleton->progs.run_learn_stack, (__u64[]){depth, count}, 2);
}

__u32 run_follow_stack(struct bench *bench, __u32 depth, __u32 most)
{
	return run(bench->skeleton->progs.run_follow_stack, (__u64[]){depth, most}, 2);
}

int run_on_task_stack(struct bench *bench, __u64 higher)
{
	return run(bench->skeleton->progs.run_on_task_stack, (__u64[]){higher}, 1);
}

int run_sum_of_walk(struct bench *bench, __u32 own, __u32 count)
{
	return run(bench->skeleton->progs.run_sum_of_walk, (__u64[]){own, count}, 2);
}
