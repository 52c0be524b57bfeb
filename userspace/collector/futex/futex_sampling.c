// SPDX-License-Identifier: GPL-2.0-or-later
#include "bpf/futex.h"
#include "futex/futex_sampling.h"

#define MOST_ORDINARY (FUTEX_TOKENS - FUTEX_RESERVED)
/* Of a wake for each wait: there are fewer kinds of them, and waits tell how long. */
#define WAKES 0.5
/* Of all samples, where there are enough of both. */
#define OF_WAITS (1 / (1 + WAKES))
#define OF_WAKES (WAKES / (1 + WAKES))
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

static struct futex_share first_share(double at_first, __u32 cpus, double part)
{
	return (struct futex_share){
		.ordinary = within(at_first / (4.0 * cpus), MOST_ORDINARY),
		.reserved = within(at_first / (2.0 * cpus), FUTEX_RESERVED),
		.credit = at_first * part,
	};
}

static void see_taken(struct futex_share *share, double due, __u64 taken, double at_first, double seconds, double room)
{
	double factor;

	share->credit += due - taken;
	if (share->credit > at_first)
		share->credit = at_first;
	if (share->credit < -at_first)
		share->credit = -at_first;
	/* What is taken once there is room again is as it was before. */
	if (!room)
		return;
	/* As long as there is credit, what is taken may be more than what is due; a debt is paid back in a second. */
	due += share->credit > 0 ? share->credit * room / 4 : share->credit * seconds;
	factor = taken <= due ? GROWTH : due > 0 ? due / taken : LEAST;
	share->ordinary = within(share->ordinary * factor, MOST_ORDINARY);
	/* Rows with few samples come first, until ordinary ones get next to none. */
	if (factor > 1 || share->ordinary < 0.1 || taken > 2 * due)
		share->reserved = within(share->reserved * factor, FUTEX_RESERVED);
}

static double least(double one, double other)
{
	return one < other ? one : other;
}

void futex_sampling_read(struct futex_sampling *sampling, __u32 cpus, __u64 now_ns, __u64 waits, __u64 wakes,
			 const struct naming_pace *pace)
{
	const double at_first = (double)(sampling->a_second ?: FUTEX_SAMPLES_A_SECOND) * FUTEX_SECONDS_AT_FIRST;
	const double room = part_with_room(pace);
	double seconds, due;

	sampling->turn++;
	if (!sampling->last_ns) {
		*sampling = (struct futex_sampling){
			.waits = first_share(at_first, cpus, OF_WAITS),
			.wakes = first_share(at_first, cpus, OF_WAKES),
			.last_ns = now_ns,
			.a_second = sampling->a_second,
			.cpu_ns = FUTEX_FIRST_CPU_NS,
			.seen_ns = pace->cpu_ns,
		};
		return;
	}
	seconds = (now_ns - sampling->last_ns) * 1e-9;
	see_cost(sampling, seconds, waits + wakes, pace);
	due = seconds * rate_of(sampling) * room;
	sampling->last_ns = now_ns;
	sampling->full = !room;
	/* What one kind has no use for is the other's. */
	see_taken(&sampling->waits, due - least(wakes, due * OF_WAKES), waits, at_first * OF_WAITS, seconds, room);
	see_taken(&sampling->wakes, due - least(waits, due * OF_WAITS), wakes, at_first * OF_WAKES, seconds, room);
}

/* A share of 0.25 is one at every fourth turn, each CPU at another. */
static __u32 whole(double share, __u32 turn)
{
	return (__u64)((turn + 1) * share) - (__u64)(turn * share);
}

static __u32 tokens(const struct futex_sampling *sampling, const struct futex_share *share, __u32 cpu, double part)
{
	__u32 turn = (sampling->turn + cpu * 7) & 0xffff, ordinary = whole(share->ordinary * part, turn);

	if (sampling->full)
		return 0;
	return ordinary ? FUTEX_RESERVED + ordinary : whole(share->reserved * part, turn);
}

/* Tokens that are left: all rows that waited have so many.  Where there were none nothing was learnt. */
__u32 futex_sampling_level(__u32 level, __u32 got, __u32 left)
{
	if (!got)
		return level;
	if (left)
		return level < FUTEX_FEW_SAMPLES ? level + 1 : level;
	return level ? level - 1 : 0;
}

__u32 futex_sampling_waits(const struct futex_sampling *sampling, __u32 cpu)
{
	return tokens(sampling, &sampling->waits, cpu, 1);
}

__u32 futex_sampling_wakes(const struct futex_sampling *sampling, __u32 cpu)
{
	return tokens(sampling, &sampling->wakes, cpu, WAKES);
}
