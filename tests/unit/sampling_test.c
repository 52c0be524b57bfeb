// SPDX-License-Identifier: GPL-2.0-or-later
/* How many stacks the sampling lets a CPU take, played through a minute. */
#include "bpf/lockline.h"
#include "probes/sampling.h"
#include "tap.h"

#define READS_A_SECOND 20
#define SECONDS        60

static struct cpu_state state;

struct cpu_state *maps_cpu(const struct maps *maps, __u32 cpu)
{
	return &state;
}

/* Stacks of a CPU that has so many waits in a second, all for one lock, in the seconds from `from` on. */
static __u64 stacks(__u32 waits, const struct options *options, int from)
{
	const struct sizing sizing = {.cpus = 1};
	const struct maps maps = {.sizing = &sizing};
	struct sampling sampling = {};
	__u64 before = 0, waited = 0;

	state = (struct cpu_state){
		.sample_mask = sampling_first_period(options) - 1,
		.stack_tokens = sampling_tokens(options),
	};
	for (int read = 0; read < SECONDS * READS_A_SECOND; read++) {
		if (read == from * READS_A_SECOND)
			before = state.events;
		for (__u32 i = 0; i < waits / READS_A_SECOND; i++) {
			state.begins[KIND_SPINLOCK]++;
			if ((waited++ & state.sample_mask) == state.sample_mask && state.stack_tokens) {
				state.stack_tokens--;
				state.events++;
			}
		}
		sampling_refill(&maps, options, &sampling);
		if (read % READS_A_SECOND == READS_A_SECOND - 1)
			sampling_adapt(&maps, options, &sampling, 1000000000);
	}
	return state.events - before;
}

static void test_first_stacks_come_soon(void)
{
	const struct options options = {};
	__u64 all = stacks(2000, &options, 0), late = stacks(2000, &options, 30);

	CHECK(all - late > late + 10, "2,000 waits a second: %llu stacks in the first half minute, %llu in the second",
	      (unsigned long long)(all - late), (unsigned long long)late);
}

/* A walk takes 5 us, or more where the caches are cold. */
static void test_stacks_cost_a_wait_little(void)
{
	static const __u32 rates[] = {1000, 5000, 20000, 200000};
	const struct options options = {};

	for (unsigned int i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
		__u64 late = stacks(rates[i], &options, 30);

		CHECK(late * 5000 <= 10ull * rates[i] * (SECONDS - 30), "%u waits a second: %llu stacks", rates[i],
		      (unsigned long long)late);
		CHECK(late >= SECONDS - 30, "%u waits a second: only %llu stacks", rates[i], (unsigned long long)late);
	}
}

static void test_few_waits_are_sampled_too(void)
{
	const struct options options = {};
	__u64 late = stacks(40, &options, 30);

	CHECK(late >= SECONDS - 30, "40 waits a second: %llu stacks", (unsigned long long)late);
}

static void test_who_asks_for_a_period_gets_it(void)
{
	const struct options options = {.sample_period = 8};
	__u64 late = stacks(4000, &options, 30);

	CHECK(late == 4000 / 8 * (SECONDS - 30), "one in 8 of 4,000 waits a second: %llu stacks",
	      (unsigned long long)late);
}

static const struct test tests[] = {
	TEST(test_first_stacks_come_soon),
	TEST(test_stacks_cost_a_wait_little),
	TEST(test_few_waits_are_sampled_too),
	TEST(test_who_asks_for_a_period_gets_it),
};

int main(void)
{
	return RUN_TESTS(tests);
}
