// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/online_cpus.h"
#include "base/spelling.h"
#include "cli/kinds.h"
#include "cli/import_options.h"
#include "cli/message.h"
#include "cli/command_line.h"
#include "cli/record_options.h"
#include "cli/version.h"
#include "base/values.h"
#include "base/wrapped.h"
#include "cli/watch_options.h"

enum value_kind {
	VALUE_FLAG,         /* bool */
	VALUE_COUNTER,      /* int, one more each time */
	VALUE_PERHAPS,      /* __u32; without an argument its min */
	VALUE_TEXT,         /* const char * */
	VALUE_U32,          /* __u32 */
	VALUE_POWER_OF_TWO, /* __u32 */
	VALUE_SECONDS,      /* __u64 ns; a bare number means seconds */
	VALUE_TIME,         /* __u64 ns; the unit has to be said */
	VALUE_SLICE,        /* as VALUE_SECONDS, and a default without an argument */
	VALUE_SIZE,         /* __u64 bytes */
	VALUE_KINDS,        /* __u32 mask */
	VALUE_IDS,          /* struct id_list */
	VALUE_CPUS,         /* struct id_list; checked against the possible CPUs afterwards */
	VALUE_HELP,
	VALUE_VERSION,
};

#define FOR_RECORD (1u << COMMAND_RECORD)
#define FOR_DOCTOR (1u << COMMAND_DOCTOR)
#define FOR_BOTH   (FOR_RECORD | FOR_DOCTOR)
#define FOR_TYPES  (1u << COMMAND_TYPES)
#define FOR_IMPORT (1u << COMMAND_IMPORT)
#define FOR_WATCH  (1u << COMMAND_WATCH)
#define FOR_WAITS  (FOR_RECORD | FOR_WATCH)
#define FOR_ALL    (FOR_BOTH | FOR_TYPES | FOR_IMPORT | FOR_WATCH)

#define MAX_PID          4194304 /* PID_MAX_LIMIT */
#define MAX_FILTER_IDS   4096
#define SECOND           1000000000ull
#define DEFAULT_ACCESSES 50000
#define DEFAULT_SLICE    (2 * SECOND)
#define MAX_FILTER       1023
#define MAX_NAMES        131071 /* bytes; the longest argument that the kernel takes */

struct option_row {
	int letter;       /* above CHAR_MAX: long form alone */
	const char *name; /* NULL: no option, but the heading of those that follow */
	const char *argument;
	const char *help;
	enum value_kind kind;
	unsigned int commands;
	__u64 min;
	__u64 max;
	size_t offset;
};

#define AT(field) offsetof(struct options, field)
#define HEADING(text)          \
	{                      \
		.help = (text) \
	}

enum {
	ONLY_LONG = CHAR_MAX,
	CONTAINER,
	POD,
	KINDS,
	KEEP,
	MAX_SIZE,
	THRESHOLD,
	SAMPLE,
	FUTEX_STACKS,
	GO_TRAPS,
	MEMORY,
	POSSIBLE_CPUS,
	USER_STACKS,
	C2C,
	PERF,
	LDLAT,
	HITM,
	HITM_RATE,
	HITM_EVENT,
	L3_MISSES,
	HOLDERS,
	HOLDS,
	EPISODES,
	FLIGHT,
	UNTIL,
	SAVE_LAST,
	SAVES,
	FUTEX,
	GO,
	PTRACE,
	CLOCKSOURCE,
	DEEP,
	SELF_CHECK,
	SIZES,
	BTF,
	PROGRAM,
	FUNCTION,
	STRUCT,
	VARIABLE,
	KALLSYMS,
	SYSTEM_MAP,
	RECORDING,
	SYMFS,
	NO_SOURCE,
	ACCESSES,
	LINE_SIZE,
	DECODER,
	AUTO,
	OFFSETS,
	MAX_OVERHEAD,
	FULL,
	ACCESS,
	END_WITH,
	MAX_COST,
	TEMPORARY,
	VERSION,
};

static const struct option_row rows[] = {
	HEADING("which line, and how closely"),
	{AUTO, "auto", "[=N]", "instead of TARGET: the N most contended locks, one after another; default 3",
	 VALUE_PERHAPS, FOR_WATCH, 3, 64, AT(watch_auto)},
	{'i', "input", "RECORDING", "a recording of this boot, for TARGET lock:NAME", VALUE_TEXT, FOR_WATCH, 1,
	 PATH_MAX - 1, AT(watch_input)},
	{OFFSETS, "offsets", "LIST", "bytes of the line to watch, as in 0-7,16; default all 64", VALUE_TEXT, FOR_WATCH,
	 1, 255, AT(watch_offsets)},
	{ACCESS, "access", "HOW",
	 "how to tell reads from writes: instruction, or watchpoint (half as many places at once); auto, the default: "
	 "by the instruction, and by watchpoint where that fails",
	 VALUE_TEXT, FOR_WATCH, 1, 16, AT(watch_access_name)},
	{MAX_OVERHEAD, "max-overhead", "PERCENT",
	 "watch less of the time if it costs more than this part of a CPU; default 1", VALUE_TEXT, FOR_WATCH, 1, 16,
	 AT(max_overhead)},
	{FULL, "full", NULL, "watch all the time, whatever it costs", VALUE_FLAG, FOR_WATCH, 0, 0, AT(watch_full)},
	HEADING("what to record"),
	{'a', "all", NULL, "every process on every CPU; the default if nothing else is chosen", VALUE_FLAG, FOR_WAITS,
	 0, 0, AT(all)},
	{'p', "pid", "PID,...", "only these processes, their children, and what they fork", VALUE_IDS, FOR_WAITS, 1,
	 MAX_PID, AT(pids)},
	{'t', "tid", "TID,...", "only these threads", VALUE_IDS, FOR_WAITS, 1, MAX_PID, AT(tids)},
	{'C', "cpu", "LIST", "only waits on these CPUs, as in 0-3,7", VALUE_CPUS, FOR_WAITS, 0, MAX_CPUS - 1, AT(cpus)},
	{'G', "cgroup", "PATH", "only tasks in this control group or below it; cgroup v1: CONTROLLER:PATH", VALUE_TEXT,
	 FOR_WAITS, 1, PATH_MAX - 1, AT(cgroup)},
	{CONTAINER, "container", "NAME", "only tasks of this container: its name, or at least 12 digits of its id",
	 VALUE_TEXT, FOR_WAITS, 1, 255, AT(container)},
	{POD, "pod", "NS/NAME", "only tasks of this pod; with --container: of that container in it", VALUE_TEXT,
	 FOR_WAITS, 1, 511, AT(pod)},
	{'L', "lock-filter", "LOCK,...",
	 "only these locks: a variable, an address, type.member as a report names it, or a pattern as '*inode*'",
	 VALUE_TEXT, FOR_RECORD, 1, MAX_FILTER, AT(locks)},
	{'S', "callstack-filter", "FUNC,...",
	 "only waits with one of these kernel functions in their stack; also a pattern, as 'ext4_*'", VALUE_TEXT,
	 FOR_RECORD, 1, MAX_FILTER, AT(callers)},
	{KINDS, "kinds", "KIND,...", "only these kinds of locks (listed below), as in spinlock,mutex; default: all",
	 VALUE_KINDS, FOR_WAITS, 0, 0, AT(kinds)},
	HEADING("the file, and its length"),
	{'o', "output", "FILE", "write the recording to FILE; default of record: lockline.data", VALUE_TEXT,
	 FOR_WAITS | FOR_IMPORT, 1, PATH_MAX - 1, AT(output)},
	{'d', "duration", "TIME", "stop after this time: seconds, or with a suffix ms, s, m", VALUE_SECONDS, FOR_WAITS,
	 SECOND / 1000, 366 * 86400 * SECOND, AT(duration_ns)},
	{MAX_COST, "max-cost", "TIME", "stop when lockline itself, with its probes, has used this much CPU time",
	 VALUE_SECONDS, FOR_RECORD, SECOND / 1000, 366 * 86400 * SECOND, AT(max_cost_ns)},
	{END_WITH, "end-with", "PID", "end the recording when this process ends", VALUE_U32, FOR_WAITS, 1, MAX_PID,
	 AT(end_with)},
	{TEMPORARY, "temporary", NULL, "do not print the recording's name: it is removed afterwards", VALUE_FLAG,
	 FOR_WATCH | FOR_IMPORT, 0, 0, AT(temporary)},
	{KEEP, "keep", "TIME",
	 "record for days: keep full detail of the last TIME, as in 24h; older intervals are joined, then removed",
	 VALUE_SECONDS, FOR_RECORD, SECOND, 366 * 86400 * SECOND, AT(keep_ns)},
	{MAX_SIZE, "max-size", "SIZE", "keep the file below this size, as in 1G: the oldest detail is removed first",
	 VALUE_SIZE, FOR_RECORD, 4 << 20, 1ull << 44, AT(max_bytes)},
	{'I', "interval", "TIME",
	 "one row of the waiting over time covers this long; at least 100ms; default: 100ms at first, then longer, up "
	 "to 1s",
	 VALUE_SECONDS, FOR_RECORD, SECOND / 10, 3600 * SECOND, AT(interval_ns)},
	HEADING("also record"),
	{HOLDERS, "holders", NULL,
	 "also who held the locks; probes every unlock, and prints what that costs before it starts", VALUE_FLAG,
	 FOR_BOTH, 0, 0, AT(holders)},
	{HOLDS, "holds", NULL, "with --holders: also how long the most contended spinlocks are held", VALUE_FLAG,
	 FOR_BOTH, 0, 0, AT(holds)},
	{EPISODES, "episodes", NULL,
	 "also what happened on the CPUs around long waits: interrupts, context switches, wake-ups", VALUE_FLAG,
	 FOR_BOTH, 0, 0, AT(episodes)},
	{FUTEX, "futex", NULL,
	 "also waits for locks of programs (futexes), who wakes and who owns them; prints what that costs before it "
	 "starts",
	 VALUE_FLAG, FOR_BOTH, 0, 0, AT(futex)},
	{FUTEX_STACKS, "futex-stacks", "N",
	 "with --futex: take this many stacks a second, of all CPUs together; default: 60 to 240, as many as cost "
	 "0.4 % of a CPU",
	 VALUE_U32, FOR_RECORD, 1, 1000, AT(futex_stacks)},
	{GO, "go", NULL,
	 "with --futex and -p or COMMAND: also goroutines that wait for a sync.Mutex, a sync.RWMutex or a channel; "
	 "prints what that costs before it starts",
	 VALUE_FLAG, FOR_RECORD, 0, 0, AT(go)},
	{GO_TRAPS, "go-traps", "PERCENT",
	 "with --go: follow no more where that takes more than this part of the time of all CPUs; default: 10",
	 VALUE_U32, FOR_RECORD, 1, 100, AT(go_traps)},
	{PTRACE, "ptrace", NULL, "also tracers that wait for their tracees, in wait_task_inactive()", VALUE_FLAG,
	 FOR_BOTH, 0, 0, AT(ptrace)},
	{CLOCKSOURCE, "clocksource", NULL, "also reads of a clock device that all CPUs share: hpet, acpi_pm",
	 VALUE_FLAG, FOR_BOTH, 0, 0, AT(clocksource)},
	{USER_STACKS, "user-stacks", NULL, "also the program's own stack of those who wait", VALUE_FLAG, FOR_RECORD, 0,
	 0, AT(user_stacks)},
	HEADING("cache lines, by samples of the PMU"),
	{HITM, "hitm", NULL,
	 "also memory samples of the PMU, each with the lock that its task waits for at that moment", VALUE_FLAG,
	 FOR_BOTH, 0, 0, AT(hitm)},
	{HITM_RATE, "hitm-rate", "N", "with --hitm: samples per second, event and CPU; default 1000", VALUE_U32,
	 FOR_RECORD, 1, 10000, AT(hitm_rate)},
	{HITM_EVENT, "hitm-event", "EVENT", "with --hitm: use this event, as in cpu/mem-loads,ldlat=50/P", VALUE_TEXT,
	 FOR_BOTH, 1, 200, AT(hitm_event)},
	{L3_MISSES, "l3-misses", NULL, "with --hitm, on AMD Zen 4: only accesses that miss the last-level cache",
	 VALUE_FLAG, FOR_BOTH, 0, 0, AT(l3_misses)},
	{C2C, "c2c", NULL, "also run `perf c2c record`, which writes memory samples to FILE.perf.data", VALUE_FLAG,
	 FOR_RECORD, 0, 0, AT(c2c)},
	{PERF, "perf", "PATH", "the perf to run for --c2c, or to decode what lockline cannot; default perf", VALUE_TEXT,
	 FOR_RECORD | FOR_IMPORT, 1, PATH_MAX - 1, AT(perf)},
	{LDLAT, "ldlat", "CYCLES",
	 "with --c2c or --hitm: only loads that take at least this many cycles; default: as perf", VALUE_U32,
	 FOR_RECORD, 1, 65535, AT(ldlat)},
	HEADING("stop at an event"),
	{FLIGHT, "flight", NULL,
	 "a flight recorder: keep only totals until --until or SIGUSR2 ends the recording; then add the last ten "
	 "seconds",
	 VALUE_FLAG, FOR_RECORD, 0, 0, AT(flight)},
	{UNTIL, "until", "CONDITION",
	 "end with exit code 2 when this is true, as 'wait>400us'; `man lockline-record` has all conditions",
	 VALUE_TEXT, FOR_RECORD, 1, 1023, AT(until)},
	{SAVE_LAST, "save-last", "TIME",
	 "with --until: do not end, but save the last TIME, as in 10m, to FILE.saved-DATE-TIME.data", VALUE_SECONDS,
	 FOR_RECORD, SECOND, 366 * 86400 * SECOND, AT(save_last_ns)},
	{SAVES, "saves", "N", "with --save-last: keep the N newest parts; default 8", VALUE_U32, FOR_RECORD, 1, 1000,
	 AT(saves)},
	HEADING("detail and memory"),
	{THRESHOLD, "threshold", "TIME", "keep each single wait of this length or longer, as in 250us; default 1ms",
	 VALUE_TIME, FOR_WAITS, 0, 3600 * SECOND, AT(threshold_ns)},
	{SAMPLE, "sample", "N",
	 "keep one in N of a lock's shorter waits with its stack; N is a power of two; default: chosen by their rate",
	 VALUE_POWER_OF_TWO, FOR_RECORD, 1, 1 << 20, AT(sample_period)},
	{MEMORY, "memory", "SIZE",
	 "memory for lockline's tables, with a suffix K, M, G; default 64M, more where there are many CPUs; import: 1G",
	 VALUE_SIZE, FOR_WAITS | FOR_IMPORT, 1 << 20, 1ull << 36, AT(memory_bytes)},
	{SIZES, "sizes", NULL, "only print, as JSON, how the memory would be divided; record nothing", VALUE_FLAG,
	 FOR_RECORD, 0, 0, AT(sizes_only)},
	{POSSIBLE_CPUS, "possible-cpus", "N", "with --sizes: as if the machine had N possible CPUs", VALUE_U32,
	 FOR_RECORD, 1, MAX_CPUS, AT(possible_cpus)},
	HEADING("lockline itself"),
	{SELF_CHECK, "self-check", "[=TIME]",
	 "check whether lockline itself hides or causes long waits: compare slices of time (default 2s) with and "
	 "without "
	 "its deeper probes",
	 VALUE_SLICE, FOR_RECORD, SECOND / 4, 3600 * SECOND, AT(self_check_ns)},
	{DEEP, "deep", NULL,
	 "first measure how long a cache line takes between CPUs, and how far their clocks are apart", VALUE_FLAG,
	 FOR_BOTH, 0, 0, AT(deep)},
	HEADING("types"),
	{BTF, "btf", "FILE", "take types from this vmlinux or raw BTF; default: the running kernel", VALUE_TEXT,
	 FOR_TYPES, 1, PATH_MAX - 1, AT(btf)},
	{PROGRAM, "program", "FILE", "take types from a program's DWARF", VALUE_TEXT, FOR_TYPES, 1, PATH_MAX - 1,
	 AT(program)},
	{FUNCTION, "function", "NAME,...", "their parameters, and what these point to", VALUE_TEXT, FOR_TYPES, 1,
	 MAX_NAMES, AT(functions)},
	{STRUCT, "struct", "NAME,...", "structures, unions, or typedefs of such", VALUE_TEXT, FOR_TYPES, 1, MAX_NAMES,
	 AT(structs)},
	{VARIABLE, "variable", "NAME,...", "variables that BTF has: the per-CPU ones", VALUE_TEXT, FOR_TYPES, 1,
	 MAX_NAMES, AT(variables)},
	HEADING("the samples and their names"),
	{KALLSYMS, "kallsyms", "FILE", "the kernel's symbols: a copy of its /proc/kallsyms", VALUE_TEXT, FOR_IMPORT, 1,
	 PATH_MAX - 1, AT(kallsyms)},
	{SYSTEM_MAP, "system-map", "FILE", "the kernel's symbols: its System.map", VALUE_TEXT, FOR_IMPORT, 1,
	 PATH_MAX - 1, AT(system_map)},
	{RECORDING, "recording", "FILE", "names of kernel code from a recording of the same boot", VALUE_TEXT,
	 FOR_IMPORT, 1, PATH_MAX - 1, AT(recording)},
	{SYMFS, "symfs", "DIR", "directory that holds the programs and libraries, instead of /", VALUE_TEXT, FOR_IMPORT,
	 1, PATH_MAX - 1, AT(symfs)},
	{NO_SOURCE, "no-source", NULL, "do not look up source files and lines of user code", VALUE_FLAG, FOR_IMPORT, 0,
	 0, AT(no_source)},
	{ACCESSES, "accesses", "N",
	 "keep at most this many accesses, of the lines that matter most; default 50000, 0: all", VALUE_U32, FOR_IMPORT,
	 0, UINT32_MAX, AT(accesses)},
	{LINE_SIZE, "line-size", "BYTES", "size of a cache line, a power of two; default 64, with pairs of lines 128",
	 VALUE_POWER_OF_TWO, FOR_IMPORT, 16, 4096, AT(line_size)},
	{DECODER, "decoder", "WHO",
	 "who reads the file: native, perf (by `perf script`), or auto, the default: perf only where it must",
	 VALUE_TEXT, FOR_IMPORT, 1, 16, AT(decoder_name)},
	HEADING("messages and help"),
	{'q', "quiet", NULL, "no progress on stderr", VALUE_FLAG, FOR_BOTH | FOR_IMPORT | FOR_WATCH, 0, 0, AT(quiet)},
	{'v', "verbose", NULL, "more messages on stderr", VALUE_COUNTER, FOR_BOTH | FOR_WATCH, 0, 0, AT(verbose)},
	{'h', "help", NULL, "show this help, and exit", VALUE_HELP, FOR_ALL, 0, 0, 0},
	{VERSION, "version", NULL, "show the version, and exit", VALUE_VERSION, FOR_ALL, 0, 0, 0},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct {
	const char *name;
	enum command command;
	const char *usage;
	const char *help;
} commands[] = {
	{"record", COMMAND_RECORD, "record [OPTIONS] [-- COMMAND [ARGUMENT...]]",
	 "Record lock waits until Ctrl-C, for -d TIME, or as long as COMMAND runs. Needs root, or CAP_BPF and "
	 "CAP_PERFMON. The recording is one "
	 "file; "
	 "`lockline report` shows it."},
	{"doctor", COMMAND_DOCTOR, "doctor [OPTIONS]",
	 "Print as JSON what this kernel offers for each signal, and what it hides."},
	{"types", COMMAND_TYPES, "types [OPTIONS]",
	 "Print as JSON the layout of structures and the parameters of functions, from BTF or DWARF."},
	{"import", COMMAND_IMPORT, "import PERF.DATA -o FILE [OPTIONS]",
	 "Sum the memory samples of `perf c2c record` or `perf mem record` by cache line. PERF.DATA: a file, or - for "
	 "a pipe."},
	{"watch", COMMAND_WATCH, "watch [OPTIONS] TARGET | --auto [-- COMMAND [ARGUMENT...]]",
	 "Watch a cache line: who reads it, who writes it, who takes it from whom. Records lock waits beside it."},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

#define COMMAND_INDENT 10

static void print_usage(void)
{
	printf("usage: lockline-collect COMMAND [OPTIONS]\n\n");
	for (size_t i = 0; i < COMMANDS; i++) {
		printf("  %-8s", commands[i].name);
		print_wrapped(commands[i].help, COMMAND_INDENT, COMMAND_INDENT, terminal_columns());
	}
	printf("\n`lockline-collect COMMAND --help` lists the options; --version prints the version.\n");
}

#define HELP_INDENT 24

static bool takes_argument_perhaps(enum value_kind kind)
{
	return kind == VALUE_SLICE || kind == VALUE_PERHAPS;
}

/* What people call by lockline; the others are for its own use. */
static bool by_lockline(enum command command)
{
	return command == COMMAND_RECORD || command == COMMAND_WATCH || command == COMMAND_DOCTOR;
}

static void print_row(const struct option_row *row, size_t columns)
{
	char left[HELP_INDENT + 24];
	bool lettered = row->letter < ONLY_LONG;
	int length = snprintf(left, sizeof(left), "  %c%c%c --%s%s%s", lettered ? '-' : ' ',
			      lettered ? row->letter : ' ', lettered ? ',' : ' ', row->name,
			      row->argument && !takes_argument_perhaps(row->kind) ? " " : "", row->argument ?: "");

	printf("%s", left);
	if (length + 2 > HELP_INDENT) {
		putchar('\n');
		length = 0;
	}
	printf("%*s", HELP_INDENT - length, "");
	print_wrapped(row->help, HELP_INDENT, HELP_INDENT, columns);
}

static void print_help(enum command command)
{
	const size_t columns = terminal_columns();
	const char *heading = NULL;

	printf("usage: lockline%s %s\n\n", by_lockline(command) ? "" : "-collect", commands[command].usage);
	print_wrapped(commands[command].help, 0, 0, columns);
	for (size_t i = 0; i < ROWS; i++) {
		if (!rows[i].name)
			heading = rows[i].help;
		if (!rows[i].name || !(rows[i].commands & 1u << command))
			continue;
		if (heading)
			printf("\n%s:\n", heading);
		heading = NULL;
		print_row(&rows[i], columns);
	}
	if (command == COMMAND_WATCH) {
		putchar('\n');
		print_wrapped("TARGET: " WATCH_TARGET_FORMS ".", 0, 0, columns);
	}
	if (command == COMMAND_RECORD || command == COMMAND_WATCH) {
		putchar('\n');
		print_wrapped("Kinds of locks: " KIND_WORDS ".", 0, 0, columns);
		print_wrapped("With COMMAND, its process and what it forks are recorded; with -a, everything.", 0, 0,
			      columns);
	}
}

/* The option as it was written most likely: "-d" or "--kinds". */
static const char *spelled(const struct option_row *row, char text[32])
{
	if (row->letter < ONLY_LONG)
		snprintf(text, 32, "-%c", row->letter);
	else
		snprintf(text, 32, "--%s", row->name);
	return text;
}

static int store(struct options *options, const struct option_row *row, const char *argument)
{
	void *field = (char *)options + row->offset;
	char name[32], why[VALUE_WHY], shown[VALUE_SHOWN];
	__u64 value = 0;
	int err = 0;

	switch (row->kind) {
	case VALUE_FLAG:
		*(bool *)field = true;
		return 0;
	case VALUE_COUNTER:
		*(int *)field += *(int *)field < 9;
		return 0;
	case VALUE_TEXT:
		if (!*argument || strlen(argument) > row->max) {
			snprintf(why, sizeof(why), "%s", *argument ? "too long" : "empty");
			err = -EINVAL;
			break;
		}
		*(const char **)field = argument;
		return 0;
	case VALUE_U32:
		err = parse_count(argument, row->min, row->max, &value, why);
		*(__u32 *)field = value;
		break;
	case VALUE_PERHAPS:
		value = row->min;
		err = argument ? parse_count(argument, 1, row->max, &value, why) : 0;
		*(__u32 *)field = value;
		break;
	case VALUE_POWER_OF_TWO:
		err = parse_count(argument, row->min, row->max, &value, why);
		if (!err && value & (value - 1)) {
			snprintf(why, sizeof(why), "not a power of two (1, 2, 4, ...)");
			err = -EINVAL;
		}
		*(__u32 *)field = value;
		break;
	case VALUE_SLICE:
		if (!argument) {
			*(__u64 *)field = DEFAULT_SLICE;
			return 0;
		}
		/* fallthrough */
	case VALUE_SECONDS:
	case VALUE_TIME:
		err = parse_time(argument, row->kind != VALUE_TIME, row->min, row->max, field, why);
		break;
	case VALUE_SIZE:
		err = parse_size(argument, row->min, row->max, field, why);
		break;
	case VALUE_KINDS:
		err = parse_kinds(argument, field, why);
		break;
	case VALUE_IDS:
		err = parse_ids(argument, false, row->min, row->max, MAX_FILTER_IDS, field, why);
		break;
	case VALUE_CPUS:
		err = parse_ids(argument, true, row->min, row->max, MAX_CPUS, field, why);
		break;
	case VALUE_HELP:
		print_help(options->command);
		return 1;
	case VALUE_VERSION:
		print_version();
		return 1;
	}
	if (err == -ENOMEM)
		message("out of memory while reading %s", spelled(row, name));
	else if (err)
		message("%s %s: %s", spelled(row, name), show(argument, shown), why);
	return err;
}

/* A letter can mean one thing to a command and another one to others. */
static const struct option_row *row_of(int letter, enum command command)
{
	const struct option_row *other = NULL;

	for (size_t i = 0; i < ROWS; i++) {
		if (!rows[i].name || rows[i].letter != letter)
			continue;
		if (rows[i].commands & 1u << command)
			return &rows[i];
		other = &rows[i];
	}
	return other;
}

/* The table as getopt wants it; both are ended. */
static void describe(struct option longs[ROWS + 1], char shorts[3 * ROWS + 3])
{
	char *end = shorts + 2;

	memcpy(shorts, "+:", 2);
	for (size_t i = 0; i < ROWS; i++) {
		if (!rows[i].name)
			continue;
		*longs++ = (struct option){rows[i].name,
					   !rows[i].argument                      ? no_argument
					   : takes_argument_perhaps(rows[i].kind) ? optional_argument
										  : required_argument,
					   NULL, rows[i].letter};
		if (rows[i].letter >= ONLY_LONG)
			continue;
		*end++ = rows[i].letter;
		if (rows[i].argument)
			*end++ = ':';
	}
	*longs = (struct option){};
	*end = 0;
}

/* The option of a command that was meant by a long one, or NULL. */
static const char *nearest(enum command command, const char *word)
{
	const char *found = NULL;
	size_t least = 2;

	if (strncmp(word, "--", 2) || !word[2])
		return NULL;
	for (size_t i = 0; i < ROWS; i++) {
		size_t far;

		if (!rows[i].name || !(rows[i].commands & 1u << command))
			continue;
		far = spelling_distance(word + 2, rows[i].name, least);
		if (far < least || (far == least && !found)) {
			least = far;
			found = rows[i].name;
		}
	}
	return found;
}

/* What getopt does not know, or an option of another command. */
static int refuse(const struct options *options, int letter, const char *word)
{
	const char *command = commands[options->command].name, *suggestion;
	const char *program = by_lockline(options->command) ? "lockline" : "lockline-collect";
	char single[3] = {'-', optopt, 0}, shown[VALUE_SHOWN], name[32];

	if (letter == 'i' && options->command == COMMAND_RECORD) {
		message("-i no longer sets the interval: use -I. As in perf, -i names an input file");
		return -EINVAL;
	}
	if (letter != '?' && letter != ':') {
		message("%s is not an option of `%s`; see `%s %s --help`",
			spelled(row_of(letter, options->command), name), command, program, command);
		return -EINVAL;
	}
	/* glibc leaves optopt at 0 for an unknown long option, and at its value otherwise. */
	if (optopt > 0 && optopt < ONLY_LONG && strncmp(word, "--", 2))
		word = single;
	suggestion = letter == '?' && !row_of(optopt, options->command) ? nearest(options->command, word) : NULL;
	message("%s: %s%s%s%s; see `%s %s --help`", show(word, shown),
		letter == ':'                      ? "needs an argument"
		: row_of(optopt, options->command) ? "takes no argument"
						   : "no such option",
		suggestion ? "; did you mean --" : "", suggestion ?: "", suggestion ? "?" : "", program, command);
	return -EINVAL;
}

static int take_options(struct options *options, int argc, char **argv)
{
	struct option longs[ROWS + 1];
	char shorts[3 * ROWS + 3];
	/* COMMAND's own options are not ours; an import's file, and a TARGET, may stand before or behind options. */
	const char *letters = options->command == COMMAND_IMPORT ? shorts + 1 : shorts;
	int letter, err = 0;

	describe(longs, shorts);
	optind = 0; /* glibc: start afresh, also in a second call */
	opterr = 0;
	while (!err && ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1 ||
			watch_takes_target(options, argc, argv))) {
		const struct option_row *row;

		if (letter == -1)
			continue;
		row = letter == '?' || letter == ':' ? NULL : row_of(letter, options->command);
		if (!row || !(row->commands & 1u << options->command))
			return refuse(options, letter, optind > 0 && optind <= argc ? argv[optind - 1] : "");
		err = store(options, row, optarg);
	}
	return err;
}

static int parse_command(struct options *options, int argc, char **argv)
{
	const bool waits = FOR_WAITS & 1u << options->command;
	char shown[VALUE_SHOWN];
	int err = take_options(options, argc, argv);

	if (err)
		return err;
	if (options->command == COMMAND_IMPORT)
		return import_options_check(options, argc - optind, argv + optind);
	if (optind < argc && !waits) {
		message("%s: `%s` takes no argument", show(argv[optind], shown), commands[options->command].name);
		return -EINVAL;
	}
	if (optind == argc && argc > 0 && !strcmp(argv[argc - 1], "--")) {
		message("give a COMMAND after --");
		return -EINVAL;
	}
	if (!waits)
		return 0;
	if (optind < argc)
		options->command_argv = argv + optind;
	err = options->command == COMMAND_WATCH ? watch_options_check(options) : 0;
	return err ?: record_options_check(options);
}

int options_parse(struct options *options, int argc, char **argv)
{
	char shown[VALUE_SHOWN];
	int err;

	*options = (struct options){
		.output = "lockline.data",
		.kinds = KIND_MASK_ALL,
		.threshold_ns = SECOND / 1000,
		.sample_period = 0,
		.accesses = DEFAULT_ACCESSES,
	};
	if (argc < 2) {
		message("name a command: record, watch, doctor, types or import; see `lockline-collect --help`");
		return -EINVAL;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_usage();
		return 1;
	}
	if (!strcmp(argv[1], "--version")) {
		print_version();
		return 1;
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		options->command = commands[i].command;
		/* An import does not put a recording of lock waits aside by a name that nobody gave. */
		if (options->command == COMMAND_IMPORT)
			options->output = NULL;
		err = parse_command(options, argc - 1, argv + 1);
		if (err)
			options_free(options);
		return err;
	}
	message("%s: no such command; there are record, watch, doctor, types and import", show(argv[1], shown));
	return -EINVAL;
}

void options_free(struct options *options)
{
	free(options->pids.ids);
	free(options->tids.ids);
	free(options->cpus.ids);
	options->pids = options->tids = options->cpus = (struct id_list){};
}
