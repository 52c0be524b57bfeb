// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#include <bpf/bpf.h>

#include "base/small_file.h"
#include "probes/own_cost.h"

#define MS        1000000ull
#define WINDOW_NS (100 * MS)
/* Short recordings get several windows, long ones about one in 10 s: the gap doubles. */
#define FIRST_GAP_NS (500 * MS)
/* Where the cost is limited: of a load in bursts few windows tell too little. */
#define SHORT_GAP_NS (100 * MS)
#define LAST_GAP_NS  (9500 * MS)
/* Spread, so that the windows do not keep step with a periodic load. */
#define GAP_SPREAD_NS (1000 * MS)

struct counters {
	__u64 runs;
	__u64 ns;
	__u64 misses;
};

struct measured {
	struct own_program program;
	struct counters opened; /* when the window was opened */
	__u64 runs;
	__u64 ns;
	__u64 misses_before; /* recursion misses at the start */
};

struct own_cost {
	int stats_fd;  /* open in a window; -1 otherwise */
	bool external; /* statistics are on for the whole machine, by somebody else's doing */
	bool in_window;
	bool stopped;
	bool often;
	char unavailable[128];
	__u64 next_ns;
	__u64 gap_ns;
	__u64 opened_ns;
	__u64 window_ns;
	__u64 windows;
	size_t count;
	struct measured measured[];
};

static int read_counters(int fd, struct counters *out)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return -errno;
	*out = (struct counters){info.run_cnt, info.run_time_ns, info.recursion_misses};
	return 0;
}

/* Read, never written. */
static bool statistics_are_on(void)
{
	char on[16];

	return !first_line("/proc/sys/kernel/bpf_stats_enabled", on, sizeof(on)) && strtol(on, NULL, 10);
}

/* An end before the begin: the counters were reset by nobody we know; take nothing. */
static __u64 grown(__u64 after, __u64 before)
{
	return after > before ? after - before : 0;
}

static void open_window(struct own_cost *cost, __u64 now_ns)
{
	if (!cost->external) {
		cost->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		if (cost->stats_fd < 0) {
			int err = errno;

			cost->stats_fd = -1;
			cost->external = err == EPERM && statistics_are_on();
			if (!cost->external) {
				snprintf(cost->unavailable, sizeof(cost->unavailable),
					 "the kernel refuses BPF statistics: %s%s", strerror(err),
					 err == EPERM ? " (this needs CAP_SYS_ADMIN)" : "");
				cost->stopped = true;
				return;
			}
		}
	}
	for (size_t i = 0; i < cost->count; i++)
		if (read_counters(cost->measured[i].program.fd, &cost->measured[i].opened))
			cost->measured[i].opened = (struct counters){~0ull, ~0ull, 0};
	cost->in_window = true;
	cost->opened_ns = now_ns;
	cost->next_ns = now_ns + WINDOW_NS;
}

static void close_window(struct own_cost *cost, __u64 now_ns)
{
	for (size_t i = 0; i < cost->count; i++) {
		struct measured *measured = &cost->measured[i];
		struct counters now;

		if (read_counters(measured->program.fd, &now))
			continue;
		measured->runs += grown(now.runs, measured->opened.runs);
		measured->ns += grown(now.ns, measured->opened.ns);
	}
	if (cost->stats_fd >= 0)
		close(cost->stats_fd);
	cost->stats_fd = -1;
	cost->in_window = false;
	cost->windows++;
	cost->window_ns += grown(now_ns, cost->opened_ns);
	cost->next_ns = now_ns + cost->gap_ns + now_ns % GAP_SPREAD_NS * cost->gap_ns / LAST_GAP_NS;
	if (!cost->often)
		cost->gap_ns = cost->gap_ns * 2 < LAST_GAP_NS ? cost->gap_ns * 2 : LAST_GAP_NS;
}

int own_cost_open(struct own_cost **out, const struct own_program *programs, size_t count, __u64 now_ns, bool often)
{
	struct own_cost *cost = calloc(1, sizeof(*cost) + count * sizeof(cost->measured[0]));

	*out = NULL;
	if (!cost)
		return -ENOMEM;
	cost->stats_fd = -1;
	cost->often = often;
	cost->gap_ns = often ? SHORT_GAP_NS : FIRST_GAP_NS;
	cost->count = count;
	for (size_t i = 0; i < count; i++) {
		struct counters now = {};

		cost->measured[i].program = programs[i];
		read_counters(programs[i].fd, &now);
		cost->measured[i].misses_before = now.misses;
	}
	open_window(cost, now_ns);
	*out = cost;
	return 0;
}

void own_cost_close(struct own_cost *cost)
{
	if (!cost)
		return;
	if (cost->stats_fd >= 0)
		close(cost->stats_fd);
	free(cost);
}

__u64 own_cost_tick(struct own_cost *cost, __u64 now_ns)
{
	if (!cost->stopped && now_ns >= cost->next_ns) {
		if (cost->in_window)
			close_window(cost, now_ns);
		else
			open_window(cost, now_ns);
	}
	return cost->stopped ? ~0ull : cost->next_ns;
}

void own_cost_stop(struct own_cost *cost, __u64 now_ns)
{
	if (cost->in_window)
		close_window(cost, now_ns);
	cost->stopped = true;
}

__u64 own_cost_estimate(const struct own_cost *cost, __u64 now_ns, __u64 elapsed_ns)
{
	__u64 measured_ns = 0, window_ns = cost->window_ns;

	for (size_t i = 0; i < cost->count; i++) {
		struct counters now;

		measured_ns += cost->measured[i].ns;
		if (cost->in_window && !read_counters(cost->measured[i].program.fd, &now))
			measured_ns += grown(now.ns, cost->measured[i].opened.ns);
	}
	if (cost->in_window)
		window_ns += grown(now_ns, cost->opened_ns);
	return window_ns ? (__u64)((double)measured_ns / window_ns * elapsed_ns) : 0;
}

size_t own_cost_count(const struct own_cost *cost)
{
	return cost->count;
}

int own_cost_program(struct own_cost *cost, size_t index, struct program_cost *out)
{
	const struct measured *measured;
	struct counters now;
	int err;

	if (index >= cost->count)
		return -EINVAL;
	measured = &cost->measured[index];
	*out = (struct program_cost){.name = measured->program.name,
				     .signal = measured->program.signal,
				     .measured_runs = measured->runs,
				     .measured_ns = measured->ns};
	err = read_counters(measured->program.fd, &now);
	if (err)
		return err;
	out->recursion_misses = grown(now.misses, measured->misses_before);
	if (cost->in_window) {
		out->measured_runs += grown(now.runs, measured->opened.runs);
		out->measured_ns += grown(now.ns, measured->opened.ns);
	}
	return 0;
}

__u64 own_cost_window_ns(const struct own_cost *cost)
{
	return cost->window_ns;
}

__u64 own_cost_windows(const struct own_cost *cost)
{
	return cost->windows;
}

const char *own_cost_unavailable(const struct own_cost *cost)
{
	return cost->unavailable[0] ? cost->unavailable : NULL;
}

static __u64 in_ns(struct timeval time)
{
	return time.tv_sec * 1000000000ull + time.tv_usec * 1000ull;
}

int own_cost_usage(struct own_usage *out)
{
	struct rusage usage;
	char most[32];

	if (getrusage(RUSAGE_SELF, &usage))
		return -errno;
	*out = (struct own_usage){
		.user_ns = in_ns(usage.ru_utime),
		.system_ns = in_ns(usage.ru_stime),
		.peak_rss_bytes = usage.ru_maxrss * 1024ull,
		.voluntary_switches = usage.ru_nvcsw,
		.involuntary_switches = usage.ru_nivcsw,
		.major_faults = usage.ru_majflt,
	};
	/* ru_maxrss survives exec: it may be that of the program that started the collector. */
	if (!value_of_key("/proc/self/status", "VmHWM", most, sizeof(most)))
		out->peak_rss_bytes = strtoull(most, NULL, 10) * 1024;
	return 0;
}
