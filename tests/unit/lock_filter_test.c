// SPDX-License-Identifier: GPL-2.0-or-later
/* The words of -L and -S: what they mean, and which are refused.  The symbols are made up. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/spelling.h"
#include "filter/lock_filter.h"
#include "names/resolver.h"
#include "tap.h"

/* More variables than a kernel without CONFIG_KALLSYMS_ALL has. */
#define VARIABLES 1200

/* No kernel's code is read here. */
int resolver_read(const struct resolver *resolver, __u64 address, void *out, size_t size)
{
	return -EFAULT;
}

static struct symbols *make_symbols(void)
{
	char path[] = "/tmp/lock_filter.XXXXXX";
	struct symbols *symbols = NULL;
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	fprintf(file, "ffffffff81000000 T _text\n");
	fprintf(file,
		"ffffffff81000100 T ksys_write\nffffffff81000180 t ext4_read\nffffffff81000200 t ext4_write.cold\n");
	fprintf(file, "ffffffff81000280 t __x64_sys_read\nffffffff81000300 T _etext\n");
	fprintf(file, "ffffffff82000000 D __per_cpu_start\nffffffff82000100 D runqueues\n");
	fprintf(file, "ffffffff82001000 D __per_cpu_end\n");
	fprintf(file, "ffffffff82002000 D tasklist_lock\nffffffff82002008 d list_lock\n");
	fprintf(file, "ffffffff82002010 d list_lock\nffffffff82002020 D init_mm\n");
	for (int i = 0; i < VARIABLES; i++)
		fprintf(file, "ffffffff83%06x d padding_%d\n", i * 16, i);
	fclose(file);
	CHECK(!symbols_open_file(&symbols, path), "no symbols");
	unlink(path);
	return symbols;
}

/* The filter of these options; its error. */
static int make(struct lock_filter *filter, const char *locks, const char *callers)
{
	const struct options options = {.locks = locks, .callers = callers};
	struct symbols *symbols = make_symbols();
	int err = lock_filter_make(filter, &options, symbols);

	symbols_close(symbols);
	return err;
}

static void without_options_nothing_is_filtered(void)
{
	struct lock_filter filter;

	CHECK(!make(&filter, NULL, NULL), "refused");
	CHECK(!filter.locks && !filter.callers_chosen && !filter.range_count && !filter.name_count, "a filter");
	lock_filter_free(&filter);
}

static void a_variable_is_all_that_lies_in_it(void)
{
	struct lock_filter filter;

	CHECK(!make(&filter, "tasklist_lock,0xffffffff82002020", NULL), "refused");
	CHECK(filter.range_count == 2 && !filter.name_count, "%u ranges", filter.range_count);
	CHECK(filter.ranges[0].begin == 0xffffffff82002000 && filter.ranges[0].end == 0xffffffff82002008,
	      "the wrong range");
	CHECK(filter.ranges[1].end == filter.ranges[1].begin + 1, "an address is not one");
	lock_filter_free(&filter);
	CHECK(!make(&filter, "list_lock", NULL), "refused");
	CHECK(filter.range_count == 2, "%u of two variables of one name", filter.range_count);
	lock_filter_free(&filter);
}

static void names_are_left_to_the_naming(void)
{
	struct lock_filter filter;

	CHECK(!make(&filter, "runqueues,ksys_write,*inode*", NULL), "refused");
	CHECK(!filter.range_count && filter.name_count == 3, "%u names", filter.name_count);
	CHECK(lock_filter_names(&filter, "runqueues.__lock"), "no run queue");
	CHECK(lock_filter_names(&filter, "pipe_inode_info.mutex"), "no pattern");
	CHECK(!lock_filter_names(&filter, "runqueues_lock"), "a longer word");
	lock_filter_free(&filter);
}

static void wrong_words_are_refused(void)
{
	static const char *const wrong[] = {"tasklist_lok",   "0x1000",         "0xffffffff8200200g", "a,,b", "",
					    "no_such.member", "tasklist_lock,,"};
	struct lock_filter filter;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CHECK(make(&filter, wrong[i], NULL) == -22, "\"%s\" is taken", wrong[i]);
		lock_filter_free(&filter);
	}
	CHECK(make(&filter, NULL, "ksys_wrte") == -22, "taken");
	lock_filter_free(&filter);
	CHECK(make(&filter, NULL, "tasklist_lock") == -22, "a variable calls nobody");
	lock_filter_free(&filter);
}

static void callers_are_ranges(void)
{
	struct lock_filter filter;

	CHECK(!make(&filter, NULL, "ksys_write,ext4_write"), "refused");
	CHECK(filter.caller_count == 2, "%u ranges", filter.caller_count);
	CHECK(filter.callers[0].begin == 0xffffffff81000100 && filter.callers[0].end == 0xffffffff81000180,
	      "the wrong range");
	CHECK(filter.callers[1].begin == 0xffffffff81000200, "what the compiler moved apart is another function");
	lock_filter_free(&filter);
	/* Those that touch become one. */
	CHECK(!make(&filter, NULL, "ext4_*,ksys_write"), "refused");
	CHECK(filter.caller_count == 1 && filter.callers[0].end == 0xffffffff81000280, "%u ranges",
	      filter.caller_count);
	lock_filter_free(&filter);
}

static void words_and_names(void)
{
	static const struct {
		const char *word, *name;
		bool matches;
	} cases[] = {
		{"inode.i_rwsem", "inode.i_rwsem", true},
		{"inode", "inode.i_rwsem", true},
		{"i_rwsem", "inode.i_rwsem", true},
		{"mmap_lock", "mm_struct.mmap_lock", true},
		{"mmap_lock", "mm_struct.mmap_lock.wait_lock", false},
		{"mm_struct.mmap_lock", "mm_struct.mmap_lock.wait_lock", false},
		{"mm_struct.*", "mm_struct.mmap_lock.wait_lock", true},
		{"kmalloc-192", "kmalloc-192 in vfs_write", true},
		{"kmalloc-19", "kmalloc-192 in vfs_write", false},
		{"ino", "inode.i_rwsem", false},
		{"rtnl_lock", "rtnl_lock", true},
		{"*", "?", true},
		{"[a-c]*", "dentry.d_lockref.lock", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		CHECK(lock_word_matches(cases[i].word, cases[i].name) == cases[i].matches, "%s and %s", cases[i].word,
		      cases[i].name);
}

static void the_nearest_word(void)
{
	struct spelling spelling = {.word = "tasklist_lok", .limit = 3};

	spelling_offer(&spelling, "unrelated");
	CHECK_TEXT(spelling.nearest, "");
	spelling_offer(&spelling, "tasklst_lk");
	spelling_offer(&spelling, "tasklist_lock");
	spelling_offer(&spelling, "tasklist_lokk");
	spelling_offer(&spelling, "tasklist_look_here");
	CHECK_TEXT(spelling.nearest, "tasklist_lock");
	CHECK(spelling_distance("kitten", "sitting", 3) == 3, "not three");
	CHECK(spelling_distance("kitten", "sitting", 2) == SIZE_MAX, "over the limit");
	CHECK(spelling_distance("", "", 0) == 0, "two empty words");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(without_options_nothing_is_filtered),
		TEST(a_variable_is_all_that_lies_in_it),
		TEST(names_are_left_to_the_naming),
		TEST(wrong_words_are_refused),
		TEST(callers_are_ranges),
		TEST(words_and_names),
		TEST(the_nearest_word),
	};

	return RUN_TESTS(tests);
}
