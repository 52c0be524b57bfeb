// SPDX-License-Identifier: GPL-2.0-or-later
#include "bpf/futex.h"
#include "futex/futex_sampling.h"

#define MOST_ORDINARY (FUTEX_TOKENS - FUTEX_RESERVED)
/* Of a wake for each wait: there are fewer kinds of them, and waits tell how long. */
#define WAKES 0.5
/* Faster down than up: what was taken too often is paid already. */
#define GROWTH 1.25
/* Of an interval without any sample, a share grows from here. */
#define LEAST 0.0001
/* Stacks are slower than this where a part of the queue's room is taken, and none come where twice as much is. */
#define FULL 0.4

static double within(double value, double most)
{
	return value < LEAST ? LEAST : value > most ? most : value;
}

/* Samples a second, by what stacks took. */
static double rate_of(const struct futex_sampling *sampling)
{
	const double left = sampling->cpu_ns / FUTEX_FIRST_CPU_NS;

	if (sampling->a_second)
		return sampling->a_second;
	return FUTEX_SAMPLES_A_SECOND + (left > 0 ? left * (FUTEX_MOST_SAMPLES_A_SECOND - FUTEX_SAMPLES_A_SECOND) : 0);
}

static void see_cost(struct futex_sampling *sampling, double seconds, __u64 taken, const struct naming_pace *pace)
{
	sampling->cpu_ns += seconds * FUTEX_STACKS_CPU_NS - taken * FUTEX_SAMPLE_NS;
	sampling->cpu_ns -= pace->cpu_ns - sampling->seen_ns;
	sampling->seen_ns = pace->cpu_ns;
	if (sampling->cpu_ns > FUTEX_FIRST_CPU_NS)
		sampling->cpu_ns = FUTEX_FIRST_CPU_NS;
	/* One large file must not keep the rate low for long. */
	if (sampling->cpu_ns < -FUTEX_FIRST_CPU_NS)
		sampling->cpu_ns = -FUTEX_FIRST_CPU_NS;
}

/* A sample that finds no room for its stack tells less than none. */
static double part_with_room(const struct naming_pace *pace)
{
	const double used = pace->most_waiting ? (double)pace->waiting / pace->most_waiting : 0;

	return used < FULL ? 1 : used < 2 * FULL ? 2 - used / FULL : 0;
}

void futex_sampling_read(struct futex_sampling *sampling, __u32 cpus, __u64 now_ns, __u64 taken,
			 const struct naming_pace *pace)
{
	const double at_first = (double)(sampling->a_second ?: FUTEX_SAMPLES_A_SECOND) * FUTEX_SECONDS_AT_FIRST;
	const double room = part_with_room(pace);
	double seconds, due, factor;

	sampling->turn++;
	if (!sampling->last_ns) {
		*sampling = (struct futex_sampling){
			.ordinary = within(at_first / (4.0 * cpus), MOST_ORDINARY),
			.reserved = within(at_first / (2.0 * cpus), FUTEX_RESERVED),
			.credit = at_first,
			.last_ns = now_ns,
			.a_second = sampling->a_second,
			.cpu_ns = FUTEX_FIRST_CPU_NS,
			.seen_ns = pace->cpu_ns,
		};
		return;
	}
	seconds = (now_ns - sampling->last_ns) * 1e-9;
	see_cost(sampling, seconds, taken, pace);
	due = seconds * rate_of(sampling) * room;
	sampling->last_ns = now_ns;
	sampling->credit += due - taken;
	if (sampling->credit > at_first)
		sampling->credit = at_first;
	if (sampling->credit < -at_first)
		sampling->credit = -at_first;
	/* What is taken once there is room again is as it was before. */
	sampling->full = !room;
	if (sampling->full)
		return;
	/* As long as there is credit, what is taken may be more than what is due; a debt is paid back in a second. */
	due += sampling->credit > 0 ? sampling->credit * room / 4 : sampling->credit * seconds;
	factor = taken <= due ? GROWTH : due > 0 ? due / taken : LEAST;
	sampling->ordinary = within(sampling->ordinary * factor, MOST_ORDINARY);
	/* Rows with few samples come first, until ordinary ones get next to none. */
	if (factor > 1 || sampling->ordinary < 0.1 || taken > 2 * due)
		sampling->reserved = within(sampling->reserved * factor, FUTEX_RESERVED);
}

/* A share of 0.25 is one at every fourth turn, each CPU at another. */
static __u32 whole(double share, __u32 turn)
{
	return (__u64)((turn + 1) * share) - (__u64)(turn * share);
}

static __u32 tokens(const struct futex_sampling *sampling, __u32 cpu, double part)
{
	__u32 turn = (sampling->turn + cpu * 7) & 0xffff, ordinary = whole(sampling->ordinary * part, turn);

	if (sampling->full)
		return 0;
	return ordinary ? FUTEX_RESERVED + ordinary : whole(sampling->reserved * part, turn);
}

/* Tokens that are left: all rows that waited have so many. */
__u32 futex_sampling_level(__u32 level, __u32 left)
{
	if (left)
		return level < FUTEX_FEW_SAMPLES ? level + 1 : level;
	return level ? level - 1 : 0;
}

__u32 futex_sampling_waits(const struct futex_sampling *sampling, __u32 cpu)
{
	return tokens(sampling, cpu, 1);
}

__u32 futex_sampling_wakes(const struct futex_sampling *sampling, __u32 cpu)
{
	return tokens(sampling, cpu, WAKES);
}
