// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "probes/own_cost.h"
#include "tap.h"

#define MS     1000000ull
#define SECOND (1000 * MS)

/* A kernel with two programs: fd 100 and 101. */
static struct kernel {
	int refuse;  /* errno of BPF_ENABLE_STATS */
	int enabled; /* how often it was switched on */
	int stats_fd;
	bool others; /* somebody else keeps statistics on */
	__u64 runs[2], ns[2], misses[2];
} kernel;

int bpf_enable_stats(enum bpf_stats_type type)
{
	if (kernel.refuse) {
		errno = kernel.refuse;
		return -errno;
	}
	kernel.enabled++;
	kernel.stats_fd = open("/dev/null", O_RDONLY);
	return kernel.stats_fd;
}

int bpf_obj_get_info_by_fd(int fd, void *info, __u32 *size)
{
	struct bpf_prog_info *out = info;

	if (fd != 100 && fd != 101) {
		errno = EBADF;
		return -errno;
	}
	out->run_cnt = kernel.runs[fd - 100];
	out->run_time_ns = kernel.ns[fd - 100];
	out->recursion_misses = kernel.misses[fd - 100];
	return 0;
}

static bool statistics_on(void)
{
	return kernel.others || (kernel.stats_fd && fcntl(kernel.stats_fd, F_GETFD) >= 0);
}

/* Both programs run: the first for 100 ns, the second for 50. */
static void run_programs(__u64 times)
{
	for (int i = 0; i < 2 && statistics_on(); i++) {
		kernel.runs[i] += times;
		kernel.ns[i] += times * (i ? 50 : 100);
	}
}

static const struct own_program programs[] = {{"begin", "lock waits", 100}, {"end", "lock waits", 101}};

static struct own_cost *start(struct kernel with)
{
	struct own_cost *cost;

	kernel = with;
	CHECK(!own_cost_open(&cost, programs, 2, 5 * SECOND, false), "open");
	return cost;
}

static void windows_alone_are_measured(void)
{
	struct own_cost *cost = start((struct kernel){.runs = {1000, 2000}, .ns = {9, 9}, .misses = {3, 4}});
	struct program_cost got;

	CHECK(kernel.enabled == 1 && statistics_on(), "the first window opens at once");
	run_programs(7);
	CHECK(!own_cost_program(cost, 0, &got), "program");
	CHECK(got.measured_runs == 7 && got.measured_ns == 700, "an open window counts: %llu, %llu ns",
	      (unsigned long long)got.measured_runs, (unsigned long long)got.measured_ns);
	CHECK(own_cost_tick(cost, 5 * SECOND + 50 * MS) == 5 * SECOND + 100 * MS, "the window's end");
	CHECK(own_cost_tick(cost, 5 * SECOND + 100 * MS) > 5 * SECOND + 500 * MS, "a gap");
	CHECK(!statistics_on() && own_cost_windows(cost) == 1 && own_cost_window_ns(cost) == 100 * MS, "closed");
	run_programs(1000);
	kernel.misses[1] += 5;
	CHECK(!own_cost_program(cost, 1, &got), "program");
	CHECK(got.measured_runs == 7 && got.measured_ns == 350 && got.recursion_misses == 5, "%llu %llu %llu",
	      (unsigned long long)got.measured_runs, (unsigned long long)got.measured_ns,
	      (unsigned long long)got.recursion_misses);
	CHECK_TEXT(got.name, "end");
	CHECK(own_cost_program(cost, 2, &got) < 0, "no third program");
	own_cost_close(cost);
}

static void gaps_grow_to_ten_seconds(void)
{
	struct own_cost *cost = start((struct kernel){});
	__u64 now = 5 * SECOND, opened = now, gap, last_gap = 0;

	for (int window = 0; window < 20; window++) {
		now = own_cost_tick(cost, now);
		CHECK(now - opened == 100 * MS, "window %d lasts %llu ns", window, (unsigned long long)(now - opened));
		gap = own_cost_tick(cost, now) - now;
		CHECK(gap >= 500 * MS && gap <= 10500 * MS, "gap %d is %llu ns", window, (unsigned long long)gap);
		CHECK(window > 4 || gap > last_gap, "gap %d does not grow", window);
		CHECK(window < 6 || gap >= 9500 * MS, "gap %d is %llu ns", window, (unsigned long long)gap);
		last_gap = gap;
		now += gap;
		opened = now;
		own_cost_tick(cost, now);
		CHECK(kernel.enabled == window + 2, "%d windows", kernel.enabled);
	}
	own_cost_close(cost);
	CHECK(!statistics_on(), "closed with the collector");
}

/* A cost that is held against a limit: half of the time is measured, the open window too. */
static void windows_come_often_where_the_cost_is_limited(void)
{
	struct own_cost *cost;
	__u64 now = 5 * SECOND;

	kernel = (struct kernel){};
	CHECK(!own_cost_open(&cost, programs, 2, now, true), "open");
	run_programs(4);
	CHECK(own_cost_estimate(cost, now + 20 * MS, 40 * MS) == 1200, "%llu",
	      (unsigned long long)own_cost_estimate(cost, now + 20 * MS, 40 * MS));
	for (int window = 0; window < 20; window++) {
		__u64 closed = own_cost_tick(cost, now), opened;

		CHECK(closed - now == 100 * MS, "window %d lasts %llu ns", window, (unsigned long long)(closed - now));
		opened = own_cost_tick(cost, closed);
		CHECK(opened - closed >= 100 * MS && opened - closed <= 120 * MS, "gap %d is %llu ns", window,
		      (unsigned long long)(opened - closed));
		own_cost_tick(cost, opened);
		now = opened;
	}
	CHECK(own_cost_estimate(cost, now, SECOND) == 300, "%llu",
	      (unsigned long long)own_cost_estimate(cost, now, SECOND));
	own_cost_close(cost);
}

static void somebody_else_keeps_them_on(void)
{
	struct own_cost *cost = start((struct kernel){.others = true});
	struct program_cost got;

	run_programs(5);
	own_cost_tick(cost, 5 * SECOND + 100 * MS);
	run_programs(1000);
	own_cost_program(cost, 0, &got);
	CHECK(got.measured_runs == 5, "%llu", (unsigned long long)got.measured_runs);
	own_cost_close(cost);
}

static void without_the_right(void)
{
	struct own_cost *cost = start((struct kernel){.refuse = EINVAL});
	struct program_cost got;

	CHECK(own_cost_unavailable(cost) && strstr(own_cost_unavailable(cost), "Invalid argument"), "reason");
	CHECK(own_cost_tick(cost, 100 * SECOND) == UINT64_MAX, "never again");
	kernel.misses[0] = 2;
	CHECK(!own_cost_program(cost, 0, &got) && !got.measured_runs && got.recursion_misses == 2, "misses are known");
	own_cost_stop(cost, 101 * SECOND);
	CHECK(!own_cost_windows(cost), "no window");
	own_cost_close(cost);
}

static void stop_closes_the_window(void)
{
	struct own_cost *cost = start((struct kernel){});
	struct program_cost got;

	run_programs(3);
	own_cost_stop(cost, 5 * SECOND + 30 * MS);
	CHECK(!statistics_on() && own_cost_window_ns(cost) == 30 * MS, "%llu",
	      (unsigned long long)own_cost_window_ns(cost));
	CHECK(own_cost_tick(cost, 60 * SECOND) == UINT64_MAX && kernel.enabled == 1, "no window after it");
	own_cost_program(cost, 0, &got);
	CHECK(got.measured_runs == 3, "%llu", (unsigned long long)got.measured_runs);
	own_cost_close(cost);
}

static void counters_that_go_back(void)
{
	struct own_cost *cost = start((struct kernel){.runs = {50, 50}, .ns = {5000, 5000}, .misses = {9, 9}});
	struct program_cost got;

	memset(kernel.runs, 0, sizeof(kernel.runs));
	memset(kernel.ns, 0, sizeof(kernel.ns));
	memset(kernel.misses, 0, sizeof(kernel.misses));
	own_cost_stop(cost, 6 * SECOND);
	own_cost_program(cost, 0, &got);
	CHECK(!got.measured_runs && !got.measured_ns && !got.recursion_misses, "nothing below zero");
	own_cost_close(cost);
}

static void usage_of_this_process(void)
{
	struct own_usage usage;

	CHECK(!own_cost_usage(&usage), "usage");
	CHECK(usage.user_ns + usage.system_ns > 0, "some CPU time");
	CHECK(usage.peak_rss_bytes > 100000 && usage.peak_rss_bytes < 1ull << 40, "%llu bytes",
	      (unsigned long long)usage.peak_rss_bytes);
}

static const struct test tests[] = {
	TEST(windows_alone_are_measured),
	TEST(gaps_grow_to_ten_seconds),
	TEST(windows_come_often_where_the_cost_is_limited),
	TEST(somebody_else_keeps_them_on),
	TEST(without_the_right),
	TEST(stop_closes_the_window),
	TEST(counters_that_go_back),
	TEST(usage_of_this_process),
};

int main(void)
{
	return RUN_TESTS(tests);
}
