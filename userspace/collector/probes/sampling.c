// SPDX-License-Identifier: GPL-2.0-or-later
#include "probes/sampling.h"

/* Stacks that the sampling aims at, for each CPU: 3 us each are 0.01 % of its time. */
#define SAMPLES_PER_SECOND 32
#define SAMPLE_PERIOD_MAX  4096
/* The most stacks between two looks at the rings, on each CPU: 40 in a second. */
#define STACK_TOKENS        2
#define FIRST_SAMPLE_PERIOD 256

__u32 sampling_first_period(const struct options *options)
{
	return options->sample_period ?: FIRST_SAMPLE_PERIOD;
}

/* Who asks for a period gets it. */
__u32 sampling_tokens(const struct options *options)
{
	return options->sample_period ? ~0u : STACK_TOKENS;
}

/* One wait in N, N by the CPU's rate. */
void sampling_adapt(const struct maps *maps, const struct options *options, __u64 *last, __u64 interval_ns)
{
	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		struct cpu_state *state = maps_cpu(maps, cpu);
		__u64 begins = 0, rate;
		__u32 period = 1;

		for (int kind = 0; kind < KIND_COUNT; kind++)
			begins += state->begins[kind];
		begins += state->slow_paths;
		rate = (begins - last[cpu]) * 1000000000ull / interval_ns;
		last[cpu] = begins;
		while (period < SAMPLE_PERIOD_MAX && period * SAMPLES_PER_SECOND < rate)
			period *= 2;
		if (!options->sample_period && state->sample_mask != period - 1)
			__atomic_store_n(&state->sample_mask, period - 1, __ATOMIC_RELAXED);
	}
}

void sampling_refill(const struct maps *maps, const struct options *options)
{
	const __u32 tokens = sampling_tokens(options);

	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		struct cpu_state *state = maps_cpu(maps, cpu);

		if (__atomic_load_n(&state->stack_tokens, __ATOMIC_RELAXED) < tokens)
			__atomic_store_n(&state->stack_tokens, tokens, __ATOMIC_RELAXED);
	}
}
