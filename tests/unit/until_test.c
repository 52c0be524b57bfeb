// SPDX-License-Identifier: GPL-2.0-or-later
/* Conditions of --until: what they say, what they mean, and what is refused. */
#include "base/values.h"
#include "cli/kinds.h"
#include "cli/until.h"
#include "tap.h"

#define US 1000ull

static struct until until;
static char why[VALUE_WHY];

static int parse(const char *text)
{
	return until_parse(&until, text, why);
}

static int matches(__u64 wait_ns, __u32 kind, __u32 tid, const char *lock)
{
	struct until_wait wait = {.wait_ns = wait_ns, .kind = kind, .tid = tid, .tgid = 100, .lock = lock};

	return until_matches(&until, &wait);
}

static void longer_than(void)
{
	CHECK(!parse("wait>400us"), "%s", why);
	CHECK(matches(401 * US, KIND_MUTEX, 5, "a") == 1, "longer");
	CHECK(!matches(400 * US, KIND_MUTEX, 5, "a"), "as long");
	CHECK(until_least_wait(&until) == 400 * US, "%llu", (unsigned long long)until_least_wait(&until));
	CHECK(!until_has_marker(&until), "no marker was asked for");
}

static void joined_by_and(void)
{
	CHECK(!parse("wait>1ms and kind=rwsem and pid=100 and lock~mmap"), "%s", why);
	CHECK(matches(1001 * US, KIND_RWSEM_WRITE, 5, "mm_struct.mmap_lock") == 1, "all hold; pid is the process's");
	CHECK(!matches(1001 * US, KIND_MUTEX, 5, "mm_struct.mmap_lock"), "kind");
	CHECK(!matches(1001 * US, KIND_RWSEM_READ, 5, "inode.i_rwsem"), "lock");
	CHECK(!matches(999 * US, KIND_RWSEM_READ, 5, "mm_struct.mmap_lock"), "wait");
	CHECK(!parse("pid=7"), "%s", why);
	CHECK(!matches(1001 * US, KIND_RWSEM_READ, 5, "x"), "neither thread nor process");
	CHECK(matches(1, KIND_RWSEM_READ, 7, "x") == 1, "the thread");
	CHECK(until_least_wait(&until) == ~0ull, "no wait was named");
}

static void alternatives(void)
{
	CHECK(!parse("wait>5ms or  wait>400us and kind=spinlock or marker"), "%s", why);
	CHECK(until.count == 3, "%d", until.count);
	CHECK(matches(5001 * US, KIND_MUTEX, 1, "") == 1, "the first");
	CHECK(matches(500 * US, KIND_SPINLOCK, 1, "") == 2, "the second");
	CHECK(!matches(500 * US, KIND_MUTEX, 1, ""), "none");
	CHECK(until_has_marker(&until), "marker");
	CHECK(until_least_wait(&until) == 400 * US, "the shortest of all");
}

static void patterns(void)
{
	CHECK(!parse("lock~task_struct.*"), "%s", why);
	CHECK(matches(1, KIND_SPINLOCK, 1, "task_struct.pi_lock") == 1, "a pattern is of the whole name");
	CHECK(!matches(1, KIND_SPINLOCK, 1, "my_task_struct.pi_lock"), "a pattern is of the whole name");
	CHECK(!parse("lock~pi_lock"), "%s", why);
	CHECK(matches(1, KIND_SPINLOCK, 1, "task_struct.pi_lock") == 1, "a part of it");
}

static void refused(void)
{
	static const char *const wrong[] = {
		"",
		" ",
		"and",
		"wait",
		"wait>",
		"wait>5",
		"wait>0us",
		"wait>2h",
		"wait<5ms",
		"wait>5ms and",
		"or wait>5ms",
		"wait>5ms wait>6ms",
		"wait>5ms and or wait>6ms",
		"kind=",
		"kind=nothing",
		"pid=",
		"pid=-1",
		"pid=4194305",
		"lock~",
		"marker and pid=4",
		"pid=1 or pid=2 or pid=3 or pid=4 or pid=5 or pid=6 or pid=7 or pid=8 or pid=9",
	};
	char lengthy[2000] = "lock~";

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		why[0] = 0;
		CHECK(parse(wrong[i]) < 0, "%s", wrong[i]);
		CHECK(why[0], "a reason for %s", wrong[i]);
	}
	memset(lengthy + 5, 'x', sizeof(lengthy) - 6);
	CHECK(parse(lengthy) < 0, "longer than any line");
	lengthy[200] = 0;
	CHECK(parse(lengthy) < 0, "longer than any name");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(longer_than), TEST(joined_by_and), TEST(alternatives), TEST(patterns), TEST(refused),
	};

	return RUN_TESTS(tests);
}
