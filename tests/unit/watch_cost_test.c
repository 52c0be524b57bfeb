// SPDX-License-Identifier: GPL-2.0-or-later
/* What the trial of a watchpoint says of machines that do not get past it, are slow, or have no time for it. */
#include "watch/watch_events.c"
#include "tap.h"

static struct measured *trial;

/* A child that stands for the trial; it ends by being killed alone. */
static pid_t start(void (*run)(void))
{
	pid_t child;

	memset(trial, 0, sizeof(*trial));
	child = fork();
	if (child)
		return child;
	run();
	for (;;)
		pause();
}

static void begin(void)
{
	__atomic_store_n(&trial->begin_ns, now_ns(), __ATOMIC_RELEASE);
}

static void hang(void)
{
	begin();
	for (;;)
		;
}

static void write_slowly(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	begin();
	for (;;) {
		nanosleep(&pause, NULL);
		__atomic_store_n(&trial->writes, trial->writes + 1, __ATOMIC_RELAXED);
	}
}

static void end_measured(void)
{
	begin();
	trial->writes = 1;
	trial->cost.hit_ns = 1234;
	__atomic_store_n(&trial->over, true, __ATOMIC_RELEASE);
	_exit(0);
}

static void end_at_once(void)
{
	_exit(1);
}

static bool is_left(pid_t child)
{
	return !kill(child, 0);
}

static void it_does_not_get_past_the_first(void)
{
	pid_t child = start(hang);
	struct watch_cost cost;

	wait_for_child(trial, child);
	CHECK(judge(trial, &cost) == -EDEADLK, "refused");
	CHECK(!is_left(child), "the trial is gone");
}

static void slow_is_not_stuck(void)
{
	pid_t child = start(write_slowly);
	struct watch_cost cost;

	wait_for_child(trial, child);
	CHECK(!judge(trial, &cost), "taken");
	CHECK(cost.hit_ns >= 1000000, "%llu ns a hit", cost.hit_ns);
	CHECK(!is_left(child), "the trial is gone");
}

static void measured(void)
{
	struct watch_cost cost;

	wait_for_child(trial, start(end_measured));
	CHECK(!judge(trial, &cost) && cost.hit_ns == 1234, "%llu ns", cost.hit_ns);
}

static void it_never_ran(void)
{
	struct watch_cost cost;

	wait_for_child(trial, start(end_at_once));
	CHECK(judge(trial, &cost) == -ETIMEDOUT, "not taken for a kernel that hangs");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(it_does_not_get_past_the_first),
		TEST(slow_is_not_stuck),
		TEST(measured),
		TEST(it_never_ran),
	};

	trial = mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return trial == MAP_FAILED ? 1 : RUN_TESTS(tests);
}
