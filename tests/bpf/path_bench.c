// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * path_bench [--counts|--symbols] [ROUNDS [NAME]]: what the programs of a wait cost, path by path.  NAME: of the paths whose names
 * have it in them alone.
 *
 * The product's own begin and end, loaded as raw tracepoints and run one at a
 * time by BPF_PROG_TEST_RUN on one CPU; the kernel times each run (BPF statistics).
 * Printed are means of the middle half, less that of a program that does nothing.  Cold: between two
 * runs more memory is read than the CPU's own caches hold, code and rows go too.
 * --counts: the code alone, as JSON: bytes, functions, calls.
 * In an emulated guest a plugin counts what is executed, path by path: those that are warm, then the numbers of CPUs, are
 * phases 1, 2, ... (scripts/bench-guest).  --symbols: where the programs' functions lay is left in symbols.1, ..., as
 * lines of /proc/kallsyms.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "bpf/lock_filter.h"
#include "bpf/lockline.h"
#include "lockline.skel.h"
#include "current_words.h"
#include "tests/workloads/counting.h"

#define NAMED_ROWS    2048
#define RING          64
#define SLEEP_SLOTS   4096
#define HOLDINGS      64
#define TASK_WORDS    (1u << 16)
#define FUNCTIONS     64
#define EVICTED_BYTES (8u << 20)
#define LINE          64
#define FULL_LOCKS    64
#define LOCK(n)       (0xffff888000000000ull + (n)*4096ull + 64)

struct settings {
	const char *name;
	__u32 flags; /* CONTENTION_* */
	bool new_rows;
	bool full;
	int locks; /* as many in turn, whose rows exist */
	bool filtered;
	bool wanted;
	__u64 only_lock; /* -L */
	bool named;      /* -L by name, the verdict known */
	bool callers;    /* -S, and none of them calls */
	bool holders;
	bool claims; /* its slot anew for each wait, as a thread that waits seldom does */
	bool stacks; /* for each wait */
	bool user_stacks;
};

static const struct settings cases[] = {
	{.name = "spinlock, row exists", .flags = CONTENTION_SPIN},
	{.name = "the same, -p: another process", .flags = CONTENTION_SPIN, .filtered = true},
	{.name = "the same, -p: this process", .flags = CONTENTION_SPIN, .filtered = true, .wanted = true},
	{.name = "the same, -L: another address", .flags = CONTENTION_SPIN, .only_lock = LOCK(2)},
	{.name = "the same, -L: this address", .flags = CONTENTION_SPIN, .only_lock = LOCK(1)},
	{.name = "the same, -L: this name", .flags = CONTENTION_SPIN, .only_lock = LOCK(2), .named = true},
	{.name = "the same, -S: no such caller", .flags = CONTENTION_SPIN, .callers = true},
	{.name = "the same, --holders", .flags = CONTENTION_SPIN, .holders = true},
	{.name = "spinlock, new row, no stack", .flags = CONTENTION_SPIN, .new_rows = true},
	{.name = "spinlock, new row with its stack", .flags = CONTENTION_SPIN, .new_rows = true, .stacks = true},
	{.name = "spinlock, table full", .flags = CONTENTION_SPIN, .new_rows = true, .full = true},
	{.name = "spinlock, 2 locks in turn", .flags = CONTENTION_SPIN, .locks = 2},
	{.name = "spinlock, 32 locks in turn", .flags = CONTENTION_SPIN, .locks = 32},
	{.name = "spinlock, 512 locks in turn", .flags = CONTENTION_SPIN, .locks = 512},
	{.name = "spinlock, 1,800 locks in turn", .flags = CONTENTION_SPIN, .locks = 1800},
	{.name = "spinlock, a stack each", .flags = CONTENTION_SPIN, .stacks = true},
	{.name = "the same, --user-stacks", .flags = CONTENTION_SPIN, .stacks = true, .user_stacks = true},
	{.name = "rwlock write, row exists", .flags = CONTENTION_SPIN | CONTENTION_WRITE},
	{.name = "mutex, row exists", .flags = CONTENTION_MUTEX},
	{.name = "the same, the slot claimed each time", .flags = CONTENTION_MUTEX, .claims = true},
	{.name = "the same, --holders", .flags = CONTENTION_MUTEX, .holders = true},
	{.name = "mutex, new row, no stack", .flags = CONTENTION_MUTEX, .new_rows = true},
	{.name = "rwsem write, row exists", .flags = CONTENTION_WRITE},
};

static const struct settings on_cpus[] = {
	{.name = "spinlock", .flags = CONTENTION_SPIN},
	{.name = "mutex", .flags = CONTENTION_MUTEX},
};

struct path {
	struct lockline_bpf *bpf;
	int begin; /* programs */
	int end;
	struct cpu_state *state;
	struct wait_row *rows;
	__u64 *task_filter;
};

static const __u64 *current_words; /* by CPU */
static char *evicted;
static volatile char sink;
static bool symbols;

static void refuse(const char *what, int error)
{
	fprintf(stderr, "path_bench: %s: %s\n", what, strerror(error));
	exit(1);
}

static void *map_memory(const struct bpf_map *map)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t bytes = (size_t)bpf_map__max_entries(map) * ((bpf_map__value_size(map) + 7) & ~7u);
	void *memory =
		mmap(NULL, (bytes + page - 1) / page * page, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	if (memory == MAP_FAILED)
		refuse("cannot map a BPF array", errno);
	return memory;
}

static void resize(struct lockline_bpf *bpf, int cpus)
{
	bpf_map__set_max_entries(bpf->maps.cpu_states, cpus);
	bpf_map__set_max_entries(bpf->maps.totals, cpus * (NAMED_ROWS + KIND_COUNT));
	bpf_map__set_max_entries(bpf->maps.sleepers, SLEEP_SLOTS);
	bpf_map__set_max_entries(bpf->maps.spin_stacks, cpus * SPIN_DEPTH);
	bpf_map__set_max_entries(bpf->maps.sleep_stacks, SLEEP_SLOTS * SLEEP_DEPTH);
	bpf_map__set_max_entries(bpf->maps.wait_events, cpus * RING);
	bpf_map__set_max_entries(bpf->maps.task_filter, 2 * TASK_WORDS);
	bpf_map__set_max_entries(bpf->maps.holding_records, cpus * HOLDINGS);
	bpf_map__set_max_entries(bpf->maps.release_states, cpus);
	bpf_map__set_max_entries(bpf->maps.release_stacks, cpus * RELEASE_STACKS);
	bpf_map__set_max_entries(bpf->maps.sleep_owners, SLEEP_SLOTS * SLEEP_DEPTH);
	bpf_map__set_max_entries(bpf->maps.waiter_counts, WAITER_COUNTS);
	bpf_map__set_max_entries(bpf->maps.lock_verdicts, VERDICT_SLOTS);
	bpf_map__set_max_entries(bpf->maps.lock_questions, cpus * QUESTIONS);
	bpf_map__set_max_entries(bpf->maps.question_states, cpus);
}

/*
 * The programs, those of the tracepoints as raw tracepoints' programs: they get their arguments as those do, and only
 * that can be run by hand.  A section's name tells libbpf which it is; no tracepoint has to be of that name.
 */
static struct lockline_bpf *open_programs(void)
{
	static const char section[] = "tp_btf/contention_", wanted[] = "raw_tp/Contention_";
	struct lockline_bpf *bpf = calloc(1, sizeof(*bpf));
	char *bytes, *here;
	size_t size, left;

	if (!bpf || lockline_bpf__create_skeleton(bpf))
		refuse("cannot open the programs", errno);
	size = bpf->skeleton->data_sz;
	bytes = malloc(size);
	if (!bytes)
		refuse("cannot open the programs", ENOMEM);
	memcpy(bytes, bpf->skeleton->data, size);
	for (here = bytes, left = size; (here = memmem(here, left, section, sizeof(section) - 1));
	     left = bytes + size - here)
		memcpy(here, wanted, sizeof(wanted) - 1);
	bpf->skeleton->data = bytes;
	if (bpf_object__open_skeleton(bpf->skeleton, NULL))
		refuse("cannot open the programs", errno);
	return bpf;
}

static void path_open(struct path *path, const struct settings *settings)
{
	struct lockline_bpf *bpf = open_programs();
	struct bpf_program *program;
	int cpu, cpus = libbpf_num_possible_cpus(), error;

	bpf_object__for_each_program(program, bpf->obj) bpf_program__set_autoload(program, false);
	bpf_program__set_autoload(bpf->progs.contention_begin, true);
	bpf_program__set_autoload(bpf->progs.contention_end, true);
	bpf->rodata->ring_mask = RING - 1;
	bpf->rodata->sleep_mask = SLEEP_SLOTS - 1;
	bpf->rodata->holding_mask = HOLDINGS - 1;
	bpf->rodata->record_holdings = settings->holders;
	bpf->rodata->filtered = settings->filtered || settings->only_lock || settings->callers;
	bpf->rodata->filter_locks = settings->only_lock;
	bpf->rodata->lock_range_count = settings->only_lock ? 1 : 0;
	bpf->rodata->lock_range_begin[0] = settings->only_lock;
	bpf->rodata->lock_range_bytes[0] = 1;
	bpf->rodata->filter_lock_names = settings->named;
	bpf->rodata->filter_callers = settings->callers;
	bpf->rodata->caller_range_count = settings->callers ? 1 : 0;
	bpf->rodata->filter_tasks = settings->filtered;
	bpf->rodata->user_stacks = settings->user_stacks;
	/* As on a kernel that has them: a lock that is no spinlock yet is looked at. */
	bpf->rodata->resilient_text = 0xffffffff81000000;
	bpf->rodata->resilient_text_size = 1;
	/* And whose waiters' stacks have a word that tells: here the lock's. */
	bpf->rodata->spin_text[0] = LOCK(0);
	bpf->rodata->spin_text_size[0] = 1ull << 40;
	resize(bpf, cpus);
	error = lockline_bpf__load(bpf);
	if (error)
		refuse("cannot load the programs", -error);
	path->bpf = bpf;
	path->begin = bpf_program__fd(bpf->progs.contention_begin);
	path->end = bpf_program__fd(bpf->progs.contention_end);
	path->state = map_memory(bpf->maps.cpu_states);
	path->rows = map_memory(bpf->maps.totals);
	path->task_filter = map_memory(bpf->maps.task_filter);
	if (settings->named)
		((__u64 *)map_memory(bpf->maps.lock_verdicts))[verdict_slot(LOCK(1), 0)] =
			verdict_word(LOCK(1), VERDICT_WANTED);
	for (cpu = 0; cpu < cpus; cpu++) {
		struct cpu_state *state = &path->state[cpu];

		state->row_base = cpu * (NAMED_ROWS + KIND_COUNT);
		state->named_rows = NAMED_ROWS;
		state->keeps = settings->claims ? 0 : 255;
		state->sleep_bits = __builtin_ctz(SLEEP_SLOTS);
		state->found_word = current_words[cpu];
		state->sample_mask = settings->stacks ? 0 : ~0u;
		state->begin_kinds =
			((1u << KIND_COUNT) - 1) | begin_flags(true, bpf->rodata->filtered, settings->holders, false);
		state->threshold_ns = ~0ull;
		state->stack_tokens = settings->stacks ? ~0u : 0;
	}
	if (settings->full)
		for (int i = 0; i < cpus * (NAMED_ROWS + KIND_COUNT); i++)
			path->rows[i].key = 1;
	if (settings->wanted)
		path->task_filter[getpid() >> 6] |= 1ull << (getpid() & 63);
}

/* Shared memory goes with the process: an address space is big enough for the few cases there are. */
static void path_close(struct path *path)
{
	lockline_bpf__destroy(path->bpf);
}

static void run(int fd, __u64 lock, __u64 argument)
{
	__u64 arguments[] = {lock, argument};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof(arguments));

	if (bpf_prog_test_run_opts(fd, &options))
		refuse("cannot run a program", errno);
}

static __u64 run_time(int fd)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		refuse("cannot read the figures of a program", errno);
	return info.run_time_ns;
}

static void evict(void)
{
	for (size_t i = 0; i < EVICTED_BYTES; i += LINE)
		sink += evicted[i];
}

static __u64 timed(int fd, __u64 lock, __u64 argument, bool cold)
{
	__u64 before = run_time(fd);

	if (cold)
		evict();
	run(fd, lock, argument);
	return run_time(fd) - before;
}

static int compare(const void *left, const void *right)
{
	__u64 a = *(const __u64 *)left, b = *(const __u64 *)right;

	return a < b ? -1 : a > b;
}

/* The mean of the middle half: as deaf to interrupts as the median, and finer than the clock's own steps of 10 ns. */
static double middle(__u64 *values, int count)
{
	int first = count / 4, last = count - first;
	double sum = 0;

	qsort(values, count, sizeof(*values), compare);
	for (int i = first; i < last; i++)
		sum += values[i];
	return sum / (last - first);
}

/* A program of two instructions, or one that reads the clock and no more. */
static int small_program(bool clock)
{
	const struct bpf_insn insns[] = {
		clock ? (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ktime_get_ns}
		      : (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, "GPL", insns, 3, NULL);

	if (fd < 0)
		refuse("cannot load a program", errno);
	return fd;
}

static double middle_of_small(int fd, bool cold, int rounds)
{
	__u64 *times = calloc(rounds, sizeof(*times));
	double result;

	for (int i = 0; i < rounds; i++)
		times[i] = timed(fd, 0, 0, cold);
	result = middle(times, rounds);
	free(times);
	return result;
}

static void mark(unsigned char phase)
{
	int error = count_phase(phase);

	if (error)
		refuse("cannot mark a phase", -error);
}

/* Of one program, and of the functions that it calls. */
static void write_functions(FILE *file, const struct bpf_program *program)
{
	__u64 addresses[FUNCTIONS] = {};
	struct bpf_prog_info info = {.jited_ksyms = (unsigned long)addresses, .nr_jited_ksyms = FUNCTIONS};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		refuse("cannot read where a program is", errno);
	for (__u32 i = 0; i < info.nr_jited_ksyms && i < FUNCTIONS; i++)
		fprintf(file, "%llx t bpf_prog_%016x_%s%s [bpf]\n", addresses[i], i, bpf_program__name(program),
			i ? "_function" : "");
}

static void write_symbols(const struct path *path, int phase)
{
	char name[32];
	FILE *file;

	snprintf(name, sizeof(name), "symbols.%d", phase);
	file = fopen(name, "we");
	if (!file)
		refuse(name, errno);
	write_functions(file, path->bpf->progs.contention_begin);
	write_functions(file, path->bpf->progs.contention_end);
	if (fclose(file))
		refuse(name, errno);
}

static void measure(const struct settings *settings, int rounds, const double empty[2], int phase)
{
	__u64 *begins = calloc(rounds, sizeof(*begins)), *ends = calloc(rounds, sizeof(*ends));
	double figures[4];

	for (int cold = 0; cold < 2; cold++) {
		struct path path;

		path_open(&path, settings);
		if (symbols && !cold)
			write_symbols(&path, phase);
		for (int i = settings->full ? -FULL_LOCKS : -settings->locks; i < rounds; i++) {
			/* Of a full table each home is known to be crowded after a first look. */
			__u64 lock = LOCK(settings->full       ? i & (FULL_LOCKS - 1)
					  : settings->locks    ? (i + settings->locks) % settings->locks
					  : settings->new_rows ? i
							       : 1);
			__u64 *at_begin = &begins[i < 0 ? 0 : i], *at_end = &ends[i < 0 ? 0 : i];

			if (i == 1 && !cold) /* the first has no row yet */
				mark(phase);
			*at_begin = timed(path.begin, lock, settings->flags, cold);
			*at_end = timed(path.end, lock, 0, false);
		}
		mark(0);
		path_close(&path);
		figures[2 * cold] = middle(begins, rounds) - empty[cold];
		figures[2 * cold + 1] = middle(ends, rounds) - empty[0];
	}
	printf("%-36s %8.0f %6.0f %6.0f %9.0f %6.0f %6.0f\n", settings->name, figures[0], figures[1],
	       figures[0] + figures[1], figures[2], figures[3], figures[2] + figures[3]);
	free(begins);
	free(ends);
}

/*
 * Calls of the first function, which a common wait runs through: of helpers, and of functions of its own; and the
 * bytes of stack that it uses.  It ends where the first of those begins.
 */
static void count_calls(const struct bpf_insn *insns, int count, int *helpers, int *functions, int *stack)
{
	int end = count;

	*helpers = *functions = *stack = 0;
	/* The first function ends where another one begins, whoever calls that: what is compiled has the distance here. */
	for (int i = 0; i < count; i++)
		if (insns[i].code == (BPF_JMP | BPF_CALL) && insns[i].src_reg == BPF_PSEUDO_CALL &&
		    i + 1 + insns[i].off > 0 && i + 1 + insns[i].off < end)
			end = i + 1 + insns[i].off;
	for (int i = 0; i < end; i++) {
		__u8 kind = BPF_CLASS(insns[i].code);
		bool kept = kind == BPF_LDX ? insns[i].src_reg == BPF_REG_10
					    : (kind == BPF_STX || kind == BPF_ST) && insns[i].dst_reg == BPF_REG_10;

		if (insns[i].code == (BPF_JMP | BPF_CALL))
			*(insns[i].src_reg == BPF_PSEUDO_CALL ? functions : helpers) += 1;
		if (kept && -insns[i].off > *stack)
			*stack = -insns[i].off;
	}
}

/* What runs from the first instruction on if no condition jumps: the way of a common wait that spins. */
struct straight {
	int insns;
	int jumps;
	int helpers;
	int functions;
};

static struct straight walk_straight(const struct bpf_insn *insns, int count)
{
	struct straight way = {};

	for (int i = 0; i < count && way.insns < count; i++) {
		const struct bpf_insn *insn = &insns[i];

		way.insns++;
		if (insn->code == (BPF_JMP | BPF_EXIT))
			break;
		if (insn->code == (BPF_JMP | BPF_CALL)) {
			*(insn->src_reg == BPF_PSEUDO_CALL ? &way.functions : &way.helpers) += 1;
		} else if (insn->code == (BPF_JMP | BPF_JA)) {
			i += insn->off;
			way.jumps++;
		} else if (insn->code == (BPF_LD | BPF_IMM | BPF_DW)) {
			i++; /* one instruction in two places */
		}
	}
	return way;
}

static void print_code(const struct bpf_program *program, bool last)
{
	static struct bpf_insn insns[16384];
	struct straight way;
	__u32 lengths[FUNCTIONS] = {};
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);
	int helpers, functions, stack;

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		refuse("cannot read the code of a program", errno);
	size = sizeof(info);
	info = (struct bpf_prog_info){
		.xlated_prog_insns = (unsigned long)insns,
		.xlated_prog_len = sizeof(insns),
		.jited_func_lens = (unsigned long)lengths,
		.nr_jited_func_lens = FUNCTIONS,
	};
	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		refuse("cannot read the code of a program", errno);
	count_calls(insns, info.xlated_prog_len / sizeof(*insns), &helpers, &functions, &stack);
	way = walk_straight(insns, info.xlated_prog_len / sizeof(*insns));
	printf(" {\"program\": \"%s\", \"bytes\": %u, \"first_bytes\": %u, \"functions\": %u, \"helper_calls\": %d, "
	       "\"own_calls\": %d, \"stack\": %d,\n"
	       "  \"straight\": {\"insns\": %d, \"jumps\": %d, \"helper_calls\": %d, \"own_calls\": %d}}%s\n",
	       bpf_program__name(program), info.jited_prog_len, lengths[0], info.nr_jited_func_lens, helpers, functions,
	       stack, way.insns, way.jumps, way.helpers, way.functions, last ? "" : ",");
}

static void print_counts(void)
{
	struct path path;

	path_open(&path, &cases[0]);
	printf("[\n");
	print_code(path.bpf->progs.contention_begin, false);
	print_code(path.bpf->progs.contention_end, true);
	printf("]\n");
	path_close(&path);
}

static void stay_on_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		refuse("cannot stay on one CPU", errno);
}

/* Waits for one lock on so many CPUs at once.  The kernel sums the time of all: means, interrupts and all. */
static void measure_on_cpus(const struct settings *settings, int cpus, int rounds, const double empty[2], int phase)
{
	__u64 begin_ns, end_ns;
	struct path path;

	path_open(&path, settings);
	if (symbols)
		write_symbols(&path, phase);
	begin_ns = run_time(path.begin);
	end_ns = run_time(path.end);
	fflush(stdout);
	mark(phase);
	for (int cpu = 0; cpu < cpus; cpu++) {
		pid_t child = fork();

		if (child < 0)
			refuse("cannot start a process", errno);
		if (child)
			continue;
		stay_on_cpu(cpu);
		for (int i = 0; i < rounds; i++) {
			run(path.begin, LOCK(1), settings->flags);
			run(path.end, LOCK(1), 0);
		}
		_exit(0);
	}
	for (int cpu = 0, status; cpu < cpus; cpu++)
		if (wait(&status) < 0 || status)
			refuse("a CPU's process failed", ECHILD);
	mark(0);
	begin_ns = run_time(path.begin) - begin_ns;
	end_ns = run_time(path.end) - end_ns;
	path_close(&path);
	printf("%s, CPUs at once: %d, mean %*s%8.0f %6.0f\n", settings->name, cpus, (int)(14 - strlen(settings->name)),
	       "", (double)begin_ns / rounds / cpus - empty[0], (double)end_ns / rounds / cpus - empty[0]);
}

int main(int argc, char **argv)
{
	bool counts = argc > 1 && !strcmp(argv[1], "--counts");
	int rounds = 501, statistics, phase = 0;
	const char *wanted = "";
	double empty[2], clock[2];

	symbols = argc > 1 && !strcmp(argv[1], "--symbols");
	if (argc > 1 + symbols && !counts)
		rounds = atoi(argv[1 + symbols]);
	if (argc > 2 + symbols)
		wanted = argv[2 + symbols];
	if (rounds < 1 || rounds > NAMED_ROWS / 2)
		refuse("ROUNDS", ERANGE);
	current_words = find_current_words();
	if (!current_words)
		refuse("cannot look for the current task", errno);
	if (counts) {
		print_counts();
		return 0;
	}
	stay_on_cpu(sched_getcpu());
	evicted = malloc(EVICTED_BYTES);
	if (!evicted)
		refuse("memory", ENOMEM);
	memset(evicted, 1, EVICTED_BYTES);
	statistics = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (statistics < 0)
		refuse("cannot switch BPF statistics on", errno);
	for (int cold = 0; cold < 2; cold++) {
		empty[cold] = middle_of_small(small_program(false), cold, rounds);
		clock[cold] = middle_of_small(small_program(true), cold, rounds) - empty[cold];
	}
	if (!*wanted)
		print_counts();
	printf("%-36s %8s %6s %6s %9s %6s %6s\n", "ns, less an empty program", "begin", "end", "both", "cold begin",
	       "end", "both");
	printf("%-36s %8.0f %6s %6s %9.0f\n", "a clock read alone", clock[0], "", "", clock[1]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (strstr(cases[i].name, wanted))
			measure(&cases[i], rounds, empty, ++phase);
	for (int cpus = 1; cpus <= get_nprocs() && !*wanted; cpus *= 2)
		for (size_t i = 0; i < sizeof(on_cpus) / sizeof(*on_cpus); i++)
			measure_on_cpus(&on_cpus[i], cpus, 20 * rounds, empty, ++phase);
	close(statistics);
	return 0;
}
