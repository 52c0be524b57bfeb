// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <unistd.h>

#include "names_test.h"
#include "names/lock_functions.h"
#include "names/symbols.h"

static const char text_only[] = "ffffffff81000000 T _stext\n"
				"ffffffff81000000 T _text\n"
				"ffffffff81000100 t local_alias\n"
				"ffffffff81000100 T global_name\n"
				"ffffffff81000100 W weak_name\n"
				"ffffffff810001f0 t __pfx_next_function\n"
				"ffffffff81000200 t next_function\n"
				"ffffffff81001000 T __sched_text_start\n"
				"ffffffff81001000 T sleeps_somehow\n"
				"ffffffff81002000 T __sched_text_end\n"
				"ffffffff81002000 T not_sleeping\n"
				"ffffffff81003000 T _etext\n"
				"ffffffff82000000 D __start_rodata\n"
				"ffffffff83000000 B __init_begin\n"
				"ffffffff83000000 T _sinittext\n"
				"ffffffffc0201000 t second_function\t[xfs]\n"
				"ffffffffc0200000 t first_function\t[xfs]\n"
				"ffffffffc0100000 T ext4_function\t[ext4]\n"
				"not a line\n"
				"ffffffffc0300000 t bpf_prog_1234_begin\t[bpf]";

static struct symbols *load(const char *text, size_t size)
{
	char path[] = "/tmp/names_test.XXXXXX";
	struct symbols *symbols = NULL;
	int fd = mkstemp(path);

	expect(fd >= 0);
	expect_number(write(fd, text, size), size);
	close(fd);
	expect_number(symbols_open_file(&symbols, path), 0);
	unlink(path);
	return symbols;
}

static struct symbols *load_text(const char *text)
{
	return load(text, strlen(text));
}

static void expect_symbol(const struct symbols *symbols, __u64 address, const char *name, __u64 offset,
			  const char *module)
{
	struct symbol symbol;

	expect_number(symbols_lookup(symbols, address, &symbol), 0);
	expect_text(symbol.name, name);
	expect_number(symbol.offset, offset);
	expect_text(symbol.module, module);
	expect_number(symbol.address, address - offset);
}

static void expect_none(const struct symbols *symbols, __u64 address)
{
	struct symbol symbol;

	expect_number(symbols_lookup(symbols, address, &symbol), -ENOENT);
	expect_text(symbol.name, "");
	expect_text(symbol.module, "");
}

#define MANY_NAMES 400000

/* Whoever hides addresses gives all names one; and a file that was made to do harm.  To move each would take hours. */
static void very_many_names_of_one_address(void)
{
	static char text[MANY_NAMES * 32];
	struct symbols *symbols;
	size_t size = 0;

	for (int i = 0; i < MANY_NAMES; i++)
		size += sprintf(text + size, "ffffffff81000100 %c name%d\n", i % 2 ? 'T' : 't', i);
	size += sprintf(text + size, "ffffffff81000200 T next\n");
	symbols = load(text, size);
	expect_symbol(symbols, 0xffffffff81000101, "name1", 1, "");
	expect_symbol(symbols, 0xffffffff81000200, "next", 0, "");
	symbols_close(symbols);
}

static void of_several_names_the_global_one(void)
{
	struct symbols *symbols = load_text(text_only);

	expect_symbol(symbols, 0xffffffff81000100, "global_name", 0, "");
	expect_symbol(symbols, 0xffffffff810001ef, "global_name", 0xef, "");
	expect_symbol(symbols, 0xffffffff81000204, "next_function", 4, "");
	expect_symbol(symbols, 0xffffffff81001000, "sleeps_somehow", 0, "");
	symbols_close(symbols);
}

static void modules_in_any_order(void)
{
	struct symbols *symbols = load_text(text_only);

	expect_symbol(symbols, 0xffffffffc0200008, "first_function", 8, "xfs");
	expect_symbol(symbols, 0xffffffffc0201008, "second_function", 8, "xfs");
	expect_symbol(symbols, 0xffffffffc0100008, "ext4_function", 8, "ext4");
	expect_symbol(symbols, 0xffffffffc0300008, "bpf_prog_1234_begin", 8, "bpf");
	symbols_close(symbols);
}

static void nothing_is_named_after_a_marker(void)
{
	struct symbols *symbols = load_text(text_only);

	expect_none(symbols, 0xffffffff80ffffff);
	expect_none(symbols, 0xffffffff81003000);
	expect_none(symbols, 0xffffffff81003008);
	expect_none(symbols, 0xffffffff82000008);
	expect_none(symbols, 0xffffffff83000100);
	/* far behind the last function of a module */
	expect_none(symbols, 0xffffffffc0200000 - 8);
	expect_none(symbols, 0xffffffffd0000000);
	expect_none(symbols, 0);
	symbols_close(symbols);
}

static void addresses_by_name(void)
{
	struct symbols *symbols = load_text(text_only);
	__u64 address = 0;

	expect_number(symbols_address(symbols, "next_function", &address), 0);
	expect_number(address, 0xffffffff81000200);
	expect_number(symbols_address(symbols, "next_functio", &address), -ENOENT);
	expect_number(symbols_address(symbols, "ext4_function", &address), -ENOENT);
	expect(!symbols_hidden(symbols));
	expect(!symbols_have_data(symbols));
	symbols_close(symbols);
}

static void hidden_addresses(void)
{
	struct symbols *symbols = load_text("0000000000000000 T _text\n0000000000000000 t do_wait\n");
	__u64 address = 1;

	expect(symbols_hidden(symbols));
	expect_number(symbols_address(symbols, "do_wait", &address), -EPERM);
	expect_number(symbols_address(symbols, "do_wait_not", &address), -ENOENT);
	expect_none(symbols, 0xffffffff81000000);
	expect_none(symbols, 0);
	symbols_close(symbols);
}

static void an_empty_file(void)
{
	struct symbols *symbols = load_text("");

	expect(!symbols_hidden(symbols));
	expect_none(symbols, 0xffffffff81000000);
	symbols_close(symbols);
	expect_number(symbols_open_file(&symbols, "/nonexistent"), -ENOENT);
}

/* A copy of the file may hold anything; each line is one still. */
static void bytes_that_are_no_text(void)
{
	static const char text[] = "ffffffff81000000 T first\n\0\0\n"
				   "ffffffff81000100 T second\n"
				   "ffffffff81000200 T third\n"
				   "ffffffff81000300 T fourth\n";
	struct symbols *symbols = load(text, sizeof(text) - 1);

	expect_symbol(symbols, 0xffffffff81000108, "second", 8, "");
	expect_symbol(symbols, 0xffffffff81000308, "fourth", 8, "");
	symbols_close(symbols);
}

#define LONG_NAME 300000

static void lines_longer_than_one_read(void)
{
	static const char before[] = "ffffffff81000000 T first\nffffffff81000100 T ";
	static const char behind[] = "\nffffffff81000200 T last\n";
	size_t size = sizeof(before) - 1 + LONG_NAME + sizeof(behind) - 1;
	char *text = malloc(size);
	struct symbols *symbols;
	struct symbol symbol;

	memcpy(text, before, sizeof(before) - 1);
	memset(text + sizeof(before) - 1, 'x', LONG_NAME);
	memcpy(text + sizeof(before) - 1 + LONG_NAME, behind, sizeof(behind) - 1);
	symbols = load(text, size);
	expect_number(symbols_lookup(symbols, 0xffffffff81000108, &symbol), 0);
	expect_number(strlen(symbol.name), LONG_NAME);
	expect_symbol(symbols, 0xffffffff81000208, "last", 8, "");
	symbols_close(symbols);
	free(text);
}

/* As on arm64. */
static void modules_below_the_kernel(void)
{
	struct symbols *symbols = load_text("ffff800080010000 T first\n"
					    "ffff800080020000 t local\n"
					    "ffff800080020000 T global\n"
					    "ffff800079990000 t of_module\t[xfs]\n"
					    "ffff800079980000 t before_it\t[xfs]\n");

	expect_symbol(symbols, 0xffff800080020008, "global", 8, "");
	expect_symbol(symbols, 0xffff800079990008, "of_module", 8, "xfs");
	expect_symbol(symbols, 0xffff800079980008, "before_it", 8, "xfs");
	symbols_close(symbols);
}

static void variables_with_kallsyms_all(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	struct symbols *symbols;

	/* The per-CPU section of x86 before 6.15 begins at 0. */
	fprintf(file, "0000000000000000 A __per_cpu_start\n0000000000021c40 A runqueues\n");
	fprintf(file, "ffffffff81000000 T _text\nffffffff81003000 T _etext\n");
	for (int i = 0; i < 2000; i++)
		fprintf(file, "%llx d variable_%d\n", 0xffffffff82000000 + i * 64ull, i);
	fprintf(file, "ffffffff82100000 B tasklist_lock\nffffffff82100040 B other\nffffffff82200000 B __bss_stop\n");
	fprintf(file, "ffffffff82300000 B _end\n");
	fclose(file);
	symbols = load(text, size);
	free(text);
	expect(symbols_have_data(symbols));
	expect_symbol(symbols, 0xffffffff82000040, "variable_1", 0, "");
	expect_symbol(symbols, 0xffffffff82100004, "tasklist_lock", 4, "");
	expect_symbol(symbols, 0x21c48, "runqueues", 8, "");
	expect_none(symbols, 0xffffffff82200000);
	expect_none(symbols, 0xffffffff82300010);
	symbols_close(symbols);
}

static void variables_whose_type_says_text(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	struct symbols *symbols;
	struct symbol symbol;

	/* As in Debian's 7.2. */
	fprintf(file, "ffffffff81000000 T _text\nffffffff81000100 T function\nffffffff81003000 T _etext\n");
	fprintf(file, "ffffffff82000000 T _sdata\nffffffff82000040 T tasklist_lock\n");
	for (int i = 2; i < 2000; i++)
		fprintf(file, "%llx t variable_%d\n", 0xffffffff82000000 + i * 64ull, i);
	fprintf(file, "ffffffff82100000 T _edata\nffffffff82200000 T _sinittext\nffffffff82200000 T start_kernel\n");
	fclose(file);
	symbols = load(text, size);
	free(text);
	expect(symbols_have_data(symbols));
	expect_symbol(symbols, 0xffffffff82000044, "tasklist_lock", 4, "");
	expect_number(symbols_lookup(symbols, 0xffffffff82000044, &symbol), 0);
	expect_number(symbol.type, 'D');
	expect_number(symbols_lookup(symbols, 0xffffffff82000080, &symbol), 0);
	expect_number(symbol.type, 'd');
	expect_number(symbols_lookup(symbols, 0xffffffff81000100, &symbol), 0);
	expect_number(symbol.type, 'T');
	expect_none(symbols, 0xffffffff82100000);
	symbols_close(symbols);
}

static void functions_that_are_no_call_site(void)
{
	static const char *const internal[] = {"_raw_spin_lock_irqsave",
					       "native_queued_spin_lock_slowpath",
					       "__pv_queued_spin_lock_slowpath",
					       "queued_write_lock_slowpath",
					       "__mutex_lock.constprop.0",
					       "mutex_lock_killable",
					       "rwsem_down_write_slowpath",
					       "down_read_trylock",
					       "down",
					       "___down_common",
					       "percpu_rwsem_wait",
					       "rt_mutex_slowlock",
					       "osq_lock",
					       "__schedule",
					       "schedule",
					       "schedule_preempt_disabled",
					       "__traceiter_contention_begin",
					       "ftrace_trampoline",
					       "bpf_prog_6eb76493dd50c943_contention_begin",
					       "bpf_trace_run2",
					       "raw_spin_rq_lock_nested",
					       "__wake_up_common_lock",
					       "prepare_to_wait_event",
					       "complete"};
	static const char *const callers[] = {
		"pipe_write",       "futex_wake",  "rtnl_lock",          "folio_lruvec_lock_irqsave", "do_wait",
		"try_to_wake_up",   "downstream",  "schedule_work",      "update_rq_clock",           "upload",
		"lock_sock_nested", "unlock_page", "completion_handler", "wake_up_process",           ""};

	for (size_t i = 0; i < sizeof(internal) / sizeof(*internal); i++)
		if (!symbol_is_lock_internal(internal[i]))
			expect_text(internal[i], "an internal function");
	for (size_t i = 0; i < sizeof(callers) / sizeof(*callers); i++)
		if (symbol_is_lock_internal(callers[i]))
			expect_text(callers[i], "a call site");
}

static void sections_mark_what_waits(void)
{
	struct symbols *symbols = load_text(text_only);
	struct symbol symbol;

	expect_number(symbols_lookup(symbols, 0xffffffff81001010, &symbol), 0);
	expect(symbols_is_lock_internal(symbols, &symbol));
	expect_number(symbols_lookup(symbols, 0xffffffff81002010, &symbol), 0);
	expect(!symbols_is_lock_internal(symbols, &symbol));
	symbols_close(symbols);
}

#define CASE(function)              \
	{                           \
#function, function \
	}

const struct test_case symbol_cases[] = {CASE(of_several_names_the_global_one),
					 CASE(very_many_names_of_one_address),
					 CASE(modules_in_any_order),
					 CASE(nothing_is_named_after_a_marker),
					 CASE(addresses_by_name),
					 CASE(hidden_addresses),
					 CASE(an_empty_file),
					 CASE(bytes_that_are_no_text),
					 CASE(lines_longer_than_one_read),
					 CASE(modules_below_the_kernel),
					 CASE(variables_with_kallsyms_all),
					 CASE(variables_whose_type_says_text),
					 CASE(functions_that_are_no_call_site),
					 CASE(sections_mark_what_waits),
					 {}};
