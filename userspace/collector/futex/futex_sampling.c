// SPDX-License-Identifier: GPL-2.0-or-later
#include "bpf/futex.h"
#include "futex/futex_sampling.h"

#define MOST_ORDINARY (FUTEX_TOKENS - FUTEX_RESERVED)
/* Faster down than up: what was taken too often is paid already. */
#define GROWTH 1.25
/* Of an interval without any sample, a share grows from here. */
#define LEAST 0.0001

static double within(double value, double most)
{
	return value < LEAST ? LEAST : value > most ? most : value;
}

void futex_sampling_read(struct futex_sampling *sampling, __u32 cpus, __u64 now_ns, __u64 taken)
{
	const __u32 a_second = sampling->a_second ?: FUTEX_SAMPLES_A_SECOND;
	const double at_first = (double)a_second * FUTEX_SECONDS_AT_FIRST;
	double due, factor;

	sampling->turn++;
	if (!sampling->last_ns) {
		*sampling = (struct futex_sampling){
			.ordinary = within(at_first / (4.0 * cpus), MOST_ORDINARY),
			.reserved = within(at_first / (2.0 * cpus), FUTEX_RESERVED),
			.credit = at_first,
			.last_ns = now_ns,
			.a_second = a_second,
		};
		return;
	}
	due = (now_ns - sampling->last_ns) * 1e-9 * a_second;
	sampling->last_ns = now_ns;
	sampling->credit += due - taken;
	if (sampling->credit > at_first)
		sampling->credit = at_first;
	if (sampling->credit < -at_first)
		sampling->credit = -at_first;
	/* As long as there is credit, what is taken may be more than what is due; a debt is paid back in a second. */
	due += sampling->credit > 0 ? sampling->credit / 4 : sampling->credit * due / a_second;
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

__u32 futex_sampling_tokens(const struct futex_sampling *sampling, __u32 cpu)
{
	__u32 turn = (sampling->turn + cpu * 7) & 0xffff, ordinary = whole(sampling->ordinary, turn);

	return ordinary ? FUTEX_RESERVED + ordinary : whole(sampling->reserved, turn);
}
