// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/kinds.h"
#include "base/values.h"
#include "tap.h"

#define MS 1000000ull

static char *said; /* what the last parse wrote to stderr */
static struct options got;

/* One line of a shell, without quoting: blanks separate words. */
static int parse(const char *line)
{
	static char words[65536], *argv[256];
	FILE *terminal = stderr;
	size_t size;
	int argc = 0, result;

	snprintf(words, sizeof(words), "%s", line);
	argv[argc++] = "lockline-collect";
	for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	free(said);
	said = NULL;
	stderr = open_memstream(&said, &size);
	result = options_parse(&got, argc, argv);
	fclose(stderr);
	stderr = terminal;
	return result;
}

/* Refused, in one line that holds the words; everything freed. */
static void refused(const char *line, const char *words)
{
	int result = parse(line);

	CHECK(result < 0, "`%s` gives %d", line, result);
	CHECK(strstr(said, words), "`%s` says: %s", line, said);
	CHECK(!strncmp(said, "lockline: ", 10), "`%s` says: %s", line, said);
	CHECK(*said && strchr(said, '\n') == said + strlen(said) - 1, "`%s` says: %s", line, said);
	if (result >= 0)
		options_free(&got);
}

static void accepted(const char *line)
{
	CHECK(parse(line) == 0, "`%s`: %s", line, said);
	CHECK(!*said, "`%s` says: %s", line, said);
}

/* TARGET and options in any order; COMMAND's options are its own. */
static void watch(void)
{
	accepted("watch runqueues:0 -d 2 -- sleep -d 5");
	CHECK(got.command == COMMAND_WATCH && got.duration_ns == 2000 * MS, "%llu", got.duration_ns);
	CHECK_TEXT(got.watch_target, "runqueues:0");
	CHECK_TEXT(got.command_argv[0], "sleep");
	CHECK_TEXT(got.command_argv[1], "-d");
	CHECK(got.watch_share == 0.01 && !got.watch_places, "%f, places %x", got.watch_share, got.watch_places);
	options_free(&got);
	accepted("watch -d 2 -i x.lockline lock:a --max-overhead 0.5% --offsets 0-7,17");
	CHECK_TEXT(got.watch_target, "lock:a");
	CHECK_TEXT(got.watch_input, "x.lockline");
	CHECK(got.watch_share == 0.005 && got.watch_places == 5, "%f, places %x", got.watch_share, got.watch_places);
	options_free(&got);
	accepted("watch --auto -d 1 stress-ng --futex 2");
	CHECK(got.watch_auto == 3 && !got.watch_target, "%u lines", got.watch_auto);
	CHECK_TEXT(got.command_argv[0], "stress-ng");
	options_free(&got);
	accepted("watch --auto=7 --full");
	CHECK(got.watch_auto == 7 && !got.watch_share && got.all, "%u lines", got.watch_auto);
	options_free(&got);
	accepted("watch x --access watchpoint");
	CHECK(got.watch_access_from == ACCESS_FROM_WATCHPOINT, "%d", got.watch_access_from);
	options_free(&got);
	accepted("watch x");
	CHECK(got.watch_access_from == ACCESS_FROM_EITHER, "%d", got.watch_access_from);
	options_free(&got);
	refused("record --go -p 1", "--go needs --futex and -p PID or COMMAND");
	refused("record --futex --go -a", "--go needs --futex and -p PID or COMMAND");
	accepted("record --futex --go -p 1");
	options_free(&got);
	refused("watch x --access perf", "not instruction, watchpoint or auto");
	refused("watch", "needs a TARGET");
	refused("watch -- sleep 1", "needs a TARGET");
	refused("watch --auto=65", "out of range");
	refused("watch --auto -i x.lockline", "-i needs a target");
	refused("watch x --full --max-overhead 1", "cannot be used together");
	refused("watch x --max-overhead 101", "not a percentage");
	refused("watch x --max-overhead nan", "not a percentage");
	refused("watch x --offsets 64", "out of range");
	refused("watch x --holders", "not an option of `watch`");
	refused("record -a --full", "not an option of `record`");
	refused("record -i 1", "-i no longer sets the interval");
	refused("record -i lockline.data", "-i no longer sets the interval");
	accepted("record -I 2s");
	CHECK(got.interval_ns == 2000 * MS, "%llu", got.interval_ns);
	options_free(&got);
}

static void self_check(void)
{
	accepted("record");
	CHECK(!got.self_check_ns, "%llu", got.self_check_ns);
	accepted("record --self-check -d 60");
	CHECK(got.self_check_ns == 2000 * MS && got.duration_ns == 60000 * MS, "%llu", got.self_check_ns);
	accepted("record --self-check=0.5");
	CHECK(got.self_check_ns == 500 * MS, "%llu", got.self_check_ns);
	accepted("record --self-check=800ms -- sleep 1");
	CHECK(got.self_check_ns == 800 * MS && got.command_argv, "%llu", got.self_check_ns);
	/* The argument of an option that can be without one is behind a =. */
	accepted("record --self-check 5");
	CHECK(got.self_check_ns == 2000 * MS && !strcmp(got.command_argv[0], "5"), "%llu", got.self_check_ns);
	refused("record --self-check=1us", "--self-check");
	refused("record --self-check=", "--self-check");
	refused("record --self-check --flight", "cannot be used together");
	refused("doctor --self-check", "not an option of `doctor`");
}

static void defaults(void)
{
	accepted("record");
	CHECK(got.command == COMMAND_RECORD && got.all, "command %d all %d", got.command, got.all);
	CHECK_TEXT(got.output, "lockline.data");
	CHECK(got.kinds == KIND_MASK_ALL, "%x", got.kinds);
	CHECK(!got.duration_ns && !got.interval_ns && got.threshold_ns == MS, "times");
	CHECK(!got.sample_period && !got.memory_bytes && !got.possible_cpus, "numbers");
	CHECK(!got.user_stacks && !got.sizes_only && !got.quiet && !got.verbose && !got.command_argv, "flags");
	options_free(&got);
}

static void all_options(void)
{
	accepted("record -o x.lockline -C 0 --kinds=mutex,rwsem:R -d 2m -I 250ms --threshold 250us --sample 64 "
		 "--memory 1.5G --user-stacks -q -vv -- sleep -p 3");
	CHECK_TEXT(got.output, "x.lockline");
	CHECK(got.cpus.count == 1 && got.cpus.ids[0] == 0, "%zu CPUs", got.cpus.count);
	CHECK(got.kinds == (1u << KIND_MUTEX | 1u << KIND_MUTEX_SPIN | 1u << KIND_RWSEM_READ), "%x", got.kinds);
	CHECK(got.duration_ns == 120000 * MS && got.interval_ns == 250 * MS && got.threshold_ns == 250000, "times");
	CHECK(got.sample_period == 64 && got.memory_bytes == 3ull << 29, "%u %llu", got.sample_period,
	      (unsigned long long)got.memory_bytes);
	CHECK(got.user_stacks && got.quiet && got.verbose == 2 && !got.all, "flags");
	CHECK(got.command_argv && !strcmp(got.command_argv[0], "sleep") && !strcmp(got.command_argv[1], "-p"),
	      "the command's options are its own");
	options_free(&got);
}

static void lists(void)
{
	accepted("record -p 3,1,2,1 -p 7 -t 9");
	CHECK(got.pids.count == 4 && got.pids.ids[0] == 1 && got.pids.ids[3] == 7, "%zu", got.pids.count);
	CHECK(got.tids.count == 1 && got.tids.ids[0] == 9 && !got.all, "%zu", got.tids.count);
	options_free(&got);
	refused("record -p 0", "-p 0: out of range, 1 to 4194304");
	refused("record -p 4194305", "out of range");
	refused("record -p 18446744073709551617", "out of range");
	refused("record -p 1,", "not a list of numbers");
	refused("record -p ,1", "not a list of numbers");
	refused("record -p 1-3", "not a list of numbers");
	refused("record -p +1", "not a list of numbers");
	refused("record -p 0x1", "not a list of numbers");
	refused("record -C 3-1", "a range must go up");
	refused("record -C 0-", "not a list");
	refused("record -C 0-4294967295", "out of range, 0 to 8191");
	refused("record -C 0-99999999999999999999", "out of range");
	refused("record -C 8191", "there is no CPU 8191");
}

static void long_lists(void)
{
	struct id_list list = {};
	char text[60000] = "", why[VALUE_WHY];
	size_t used = 0;

	for (int i = 1; i <= 5000; i++)
		used += sprintf(text + used, "%s%d", i > 1 ? "," : "", i);
	CHECK(parse_ids(text, false, 1, 4194304, 5000, &list, why) == 0, "%s", why);
	CHECK(list.count == 5000, "%zu", list.count);
	CHECK(parse_ids("5001", false, 1, 4194304, 5000, &list, why) < 0 && list.count == 5000,
	      "a refused addition changes nothing: %zu", list.count);
	CHECK(parse_ids("17,4000", false, 1, 4194304, 5000, &list, why) == 0 && list.count == 5000, "repeats: %s", why);
	CHECK(id_list_has(&list, 5000) && !id_list_has(&list, 5001), "search");
	free(list.ids);
	list = (struct id_list){};
	for (used = 0; used + 8 < sizeof(text);)
		used += sprintf(text + used, "0-8191,");
	text[used - 1] = 0;
	CHECK(parse_ids(text, true, 0, 8191, 8192, &list, why) < 0 && !list.ids, "bounded before it is expanded");
	CHECK_TEXT(why, "too many numbers, at most 8192");
}

static void times(void)
{
	static const struct {
		const char *text;
		__u64 ns;
	} seconds[] = {{"1", 1000 * MS},    {"0.5", 500 * MS},   {"1.000000001", 1000 * MS + 1},
		       {"500ms", 500 * MS}, {"2m", 120000 * MS}, {"1500us", 3 * MS / 2},
		       {"0.1m", 6000 * MS}, {"1000000ns", MS}};
	static const char *const bad[] = {"",    "x",    "-1",   "1e3",          "1w",  "1 s", ".5", "1.",  "1.s",
					  "1s1", "0x10", "1..5", "1.0000000001", "inf", "nan", "1S", "1sec"};
	__u64 ns = 0;
	char why[VALUE_WHY];

	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		CHECK(!parse_time(seconds[i].text, true, 0, UINT64_MAX, &ns, why), "%s: %s", seconds[i].text, why);
		CHECK(ns == seconds[i].ns, "%s is %llu", seconds[i].text, (unsigned long long)ns);
	}
	ns = 42;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(parse_time(bad[i], true, 0, UINT64_MAX, &ns, why) < 0 && ns == 42, "\"%s\"", bad[i]);
	CHECK(parse_time("18446744073709551615m", true, 0, 10, &ns, why) < 0, "overflow");
	CHECK(parse_time("307445734561825861m", true, 0, 10, &ns, why) < 0, "overflow to a small number");
	CHECK(parse_time("99999999999999999999999.5s", true, 0, 10, &ns, why) < 0, "overflow");
	refused("record --threshold 5", "give a unit");
	refused("record --threshold 0.5", "give a unit");
	accepted("record --threshold 0");
	CHECK(got.threshold_ns == 0, "every wait");
	options_free(&got);
	refused("record --keep 24h --flight", "leave out --keep and --max-size");
	refused("record --max-size 1M", "out of range, 4M to");
	refused("record -I 50ms", "out of range, 100ms to 1h");
	refused("record -d 0", "out of range");
}

static void sizes(void)
{
	refused("record --memory 1K", "out of range, 1M to 64G");
	refused("record --memory 16777216T", "not a size");
	refused("record --memory 17179869185G", "out of range");
	refused("record --memory -1M", "not a size");
	refused("record --sample 3", "not a power of two");
	refused("record --sample 0", "out of range");
	refused("record --futex-stacks 15", "needs --futex");
	refused("record --futex --futex-stacks 0", "out of range");
	refused("record --futex -p 1 --go-traps 5", "--go-traps needs --go");
	refused("record --futex -p 1 --go --go-traps 101", "out of range");
	refused("record --possible-cpus 8", "--sizes");
	refused("record --sizes -- true", "COMMAND");
	accepted("record --sizes --possible-cpus 256");
	CHECK(got.sizes_only && got.possible_cpus == 256, "%u", got.possible_cpus);
	options_free(&got);
}

static void kinds(void)
{
	__u32 mask = 0, all = 0;
	char why[VALUE_WHY];

	for (int kind = 0; kind < KIND_END; kind++) {
		if (kind == KIND_UNKNOWN)
			continue;
		CHECK(!parse_kinds(kind_names[kind], &mask, why), "%s: %s", kind_names[kind], why);
		CHECK(mask & 1u << kind, "%s is %x", kind_names[kind], mask);
		all |= mask;
	}
	CHECK(all == (KIND_MASK_ALL & ~(1u << KIND_UNKNOWN)), "%x", all);
	parse_kinds("rwsem", &mask, why);
	CHECK(mask == (1u << KIND_RWSEM_READ | 1u << KIND_RWSEM_WRITE), "%x", mask);
	CHECK_TEXT(kind_names[KIND_PERCPU_RWSEM_WRITE], "pcpu-sem:W");
	refused("record --kinds spin", "there are spinlock, rwlock[:R|:W], mutex");
	refused("record --kinds mutex,", "no such kind");
	refused("record --kinds mutex:R", "no such kind");
	refused("record --kinds=", "no such kind");
}

static void endings(void)
{
	accepted("record --flight");
	CHECK(got.flight && got.episodes && !got.until && got.threshold_ns == MS, "%llu",
	      (unsigned long long)got.threshold_ns);
	/* One by one from the shortest wait on that may end it. */
	accepted("record --until wait>400us");
	CHECK(!got.flight && !got.episodes && got.threshold_ns == MS * 2 / 5, "%llu",
	      (unsigned long long)got.threshold_ns);
	accepted("record --until wait>5ms --threshold 250us");
	CHECK(got.threshold_ns == MS / 4, "%llu", (unsigned long long)got.threshold_ns);
	accepted("record --until marker");
	CHECK(got.threshold_ns == MS, "%llu", (unsigned long long)got.threshold_ns);
	refused("record --until wait>400", "wait>400: ");
	refused("record --until marker,", "is not a condition");
	refused("record --until", "argument");
	accepted("record --until wait>5s --save-last 10m");
	CHECK(got.save_last_ns == 600 * 1000 * MS && got.saves == 8, "%u", got.saves);
	accepted("record --until marker --save-last 1 --saves 3");
	CHECK(got.save_last_ns == 1000 * MS && got.saves == 3, "%u", got.saves);
	refused("record --save-last 10m", "needs --until");
	refused("record --flight --until marker --save-last 10m", "cannot be used with --flight");
	refused("record --until marker --saves 3", "needs --save-last");
	refused("record --until marker --save-last 10m --saves 0", "--saves 0");
	refused("record --until marker --save-last 10ms", "out of range");
	refused("doctor --flight", "not an option");
	accepted("doctor --episodes");
	CHECK(got.episodes, "so that the plan tells of it");
}

static void conflicts(void)
{
	refused("record -a -p 1", "-a and -p cannot be used together");
	refused("record -t 1 -a", "-a and -t cannot be used together");
	refused("record -a -G x", "-a and -G cannot be used together");
	refused("record -p 1 -- sleep 1", "-p and COMMAND cannot be used together");
	refused("record -t 1 sleep", "-t and COMMAND cannot be used together");
	refused("record -G x -- sleep 1", "-G and COMMAND cannot be used together");
	refused("record -G x --pod a/b", "-G and --pod cannot be used together");
	refused("record --container x -- sleep 1", "--container and COMMAND cannot be used together");
	refused("record --pod x", "--pod x: write it as NAMESPACE/NAME");
	refused("record --pod /x", "--pod /x: write it as NAMESPACE/NAME");
	accepted("record -a -- sleep 1");
	CHECK(got.all && got.command_argv, "all while COMMAND runs");
	options_free(&got);
	refused("record --perf /usr/bin/perf", "--perf needs --c2c");
	refused("record --ldlat 50", "--ldlat needs --c2c or --hitm");
	refused("record --hitm-rate 50", "--hitm-rate needs --hitm");
	refused("record --hitm-event cpu/mem-loads/", "--hitm-event needs --hitm");
	refused("record --l3-misses", "--l3-misses needs --hitm");
	refused("record --hitm --hitm-rate 10001", "out of range, 1 to 10000");
	accepted("record --hitm --ldlat 50 --l3-misses");
	CHECK(got.hitm && got.hitm_rate == 1000 && got.ldlat == 50 && got.l3_misses && !got.hitm_event, "rate %u",
	      got.hitm_rate);
	accepted("doctor --hitm --deep");
	CHECK(got.hitm && got.deep, "so that the plan tells of it");
	refused("record --c2c --ldlat 0", "out of range, 1 to 65535");
	accepted("record --c2c --ldlat 50 -- sleep 1");
	CHECK(got.c2c && got.ldlat == 50, "%u", got.ldlat);
	CHECK_TEXT(got.perf, "perf");
	options_free(&got);
	refused("record -o", "-o: needs an argument");
	refused("record --output", "--output: needs an argument");
	refused("record --quiet=1", "takes no argument");
	refused("record --no-such", "--no-such: no such option");
	refused("record -qZ", "-Z: no such option");
	refused("record --", "give a COMMAND after --");
	refused("doctor -a", "-a is not an option of `doctor`");
	refused("doctor x", "takes no argument");
	refused("report", "no such command");
	refused("", "name a command");
}

static void hostile_text(void)
{
	char shown[VALUE_SHOWN], line[5000] = "record --kinds ", *end = line + strlen(line);

	memset(end, 'a', 4500);
	refused(line, "aaa...: no such kind");
	refused("record --kinds a\033[2Jb", "a?[2Jb: no such kind");
	refused("record --\001", "--?: no such option");
	CHECK_TEXT(show("a\nb\177", shown), "a?b?");
	memset(end, 'a', 4500);
	memcpy(line, "record -o      ", 15);
	refused(line, "too long");
}

static const struct test tests[] = {
	TEST(defaults), TEST(all_options), TEST(lists),     TEST(long_lists), TEST(times), TEST(sizes),
	TEST(kinds),    TEST(endings),     TEST(conflicts), TEST(self_check), TEST(watch), TEST(hostile_text),
};

int main(void)
{
	int failed = RUN_TESTS(tests);

	free(said);
	return failed;
}
