// SPDX-License-Identifier: GPL-2.0-or-later
#include "probes/sampling.h"

/*
 * Stacks that the sampling aims at, in a second of a CPU: one for so many waits, within bounds.  A walk takes 5 to 10 us
 * where other work drives its tables out of the caches, which would be most of what a wait costs: 10 ns of each, less
 * where waits are many; where they are few it is at most 0.002 % of the CPU's time.  The first stacks of a CPU come
 * faster: a short recording needs them, and in a long one the others add up.
 */
#define WAITS_TO_A_SAMPLE 1024
#define SAMPLES_LEAST     2
#define SAMPLES_MOST      10
#define SAMPLES_SOON      64
#define SOON_LEAST        4
#define SAMPLE_PERIOD_MAX 4096
/* A CPU may take so many at once, after a calm second and when it first meets its locks. */
#define STACK_TOKENS_MOST   16
#define STACK_TOKENS_FIRST  32
#define LOOKS_PER_SECOND    20
#define FIRST_SAMPLE_PERIOD 256

__u32 sampling_first_period(const struct options *options)
{
	return options->sample_period ?: FIRST_SAMPLE_PERIOD;
}

/* Who asks for a period gets it. */
__u32 sampling_tokens(const struct options *options)
{
	return options->sample_period ? ~0u : STACK_TOKENS_FIRST;
}

/* taken: events of the CPU so far, each with a stack. */
static __u32 samples_per_second(__u64 rate, __u64 taken)
{
	__u32 least = taken < SAMPLES_SOON ? SOON_LEAST : SAMPLES_LEAST;
	__u64 samples = rate / WAITS_TO_A_SAMPLE;

	return samples < least ? least : samples > SAMPLES_MOST ? SAMPLES_MOST : samples;
}

/* One wait in N, N by the CPU's rate. */
void sampling_adapt(const struct maps *maps, const struct options *options, struct sampling *sampling,
		    __u64 interval_ns)
{
	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		struct cpu_state *state = maps_cpu(maps, cpu);
		__u64 begins = 0, rate;
		__u32 period = 1;

		for (int kind = 0; kind < KIND_COUNT; kind++)
			begins += state->begins[kind];
		begins += slow_paths_of(state);
		rate = (begins - sampling[cpu].begins) * 1000000000ull / interval_ns;
		sampling[cpu].begins = begins;
		sampling[cpu].per_second = samples_per_second(rate, state->events);
		while (period < SAMPLE_PERIOD_MAX && (__u64)period * sampling[cpu].per_second < rate)
			period *= 2;
		if (!options->sample_period && state->sample_mask != period - 1)
			__atomic_store_n(&state->sample_mask, period - 1, __ATOMIC_RELAXED);
	}
}

void sampling_refill(const struct maps *maps, const struct options *options, struct sampling *sampling)
{
	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		struct cpu_state *state = maps_cpu(maps, cpu);
		__u32 tokens = __atomic_load_n(&state->stack_tokens, __ATOMIC_RELAXED);

		sampling[cpu].credit += sampling[cpu].per_second ?: SAMPLES_MOST;
		if (sampling[cpu].credit < LOOKS_PER_SECOND)
			continue;
		sampling[cpu].credit -= LOOKS_PER_SECOND;
		/* One that is taken meanwhile comes back: a stack more. */
		if (options->sample_period)
			__atomic_store_n(&state->stack_tokens, ~0u, __ATOMIC_RELAXED);
		else if (tokens < STACK_TOKENS_MOST)
			__atomic_store_n(&state->stack_tokens, tokens + 1, __ATOMIC_RELAXED);
	}
}
