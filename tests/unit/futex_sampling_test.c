// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of futexes: machines of one to 512 CPUs that would take all they may, of old futexes or of ever new ones, take
 * about the rate, and one whose waits are on a few of its CPUs does so too.
 */
#include <stdlib.h>

#include "bpf/futex.h"
#include "futex/futex_sampling.h"
#include "tap.h"

#define READ_NS  50000000ull
#define A_SECOND (1000000000ull / READ_NS)
#define SECONDS  30

/* So many CPUs, of which the first have so many waits, and wakes, between two readings; new: futexes are. */
static __u64 samples(__u32 cpus, __u32 busy, __u32 waits, bool new, int from_second)
{
	struct futex_sampling sampling = {};
	__u64 now_ns = 1, taken = 0, all = 0;

	for (__u64 read = 0; read < SECONDS * A_SECOND; read++) {
		futex_sampling_read(&sampling, cpus, now_ns, taken);
		now_ns += READ_NS;
		taken = 0;
		for (__u32 cpu = 0; cpu < busy && cpu < cpus; cpu++) {
			__u32 tokens = futex_sampling_tokens(&sampling, cpu);

			if (!new)
				tokens = tokens > FUTEX_RESERVED ? tokens - FUTEX_RESERVED : 0;
			taken += 2 * (tokens < waits ? tokens : waits);
		}
		if (read >= from_second * A_SECOND)
			all += taken;
	}
	return all;
}

static void test_rate(void)
{
	static const __u32 cpus[] = {1, 2, 8, 64, 512};

	for (unsigned int i = 0; i < sizeof(cpus) / sizeof(*cpus); i++) {
		for (int new = 0; new < 2; new ++) {
			__u64 got = samples(cpus[i], cpus[i], 1000, new, 5);
			__u64 wanted = (SECONDS - 5) * FUTEX_SAMPLES_A_SECOND;

			CHECK(got > wanted / 2 && got < wanted * 2, "%u CPUs, %s futexes: %llu samples, wanted %llu",
			      cpus[i], new ? "new" : "old", (unsigned long long)got, (unsigned long long)wanted);
		}
	}
}

static void test_few_busy(void)
{
	__u64 got = samples(512, 4, 1000, false, 10), wanted = (SECONDS - 10) * FUTEX_SAMPLES_A_SECOND;

	CHECK(got > wanted / 3, "4 of 512 CPUs: %llu samples, wanted %llu", (unsigned long long)got,
	      (unsigned long long)wanted);
}

static void test_little_is_taken_whole(void)
{
	/* One wait and wake at each reading: 40 a second. */
	CHECK(samples(2, 1, 1, false, 0) == 2 * SECONDS * A_SECOND, "all of few are taken: %llu",
	      (unsigned long long)samples(2, 1, 1, false, 0));
}

static void test_first_second(void)
{
	struct futex_sampling sampling = {};
	__u64 taken = 0;

	futex_sampling_read(&sampling, 2, 1, 0);
	for (__u32 cpu = 0; cpu < 2; cpu++)
		taken += 2 * (futex_sampling_tokens(&sampling, cpu) - FUTEX_RESERVED);
	CHECK(taken >= 30, "at first all that the ring has room for: %llu", (unsigned long long)taken);
}

static const struct test tests[] = {
	TEST(test_rate),
	TEST(test_few_busy),
	TEST(test_little_is_taken_whole),
	TEST(test_first_second),
};

int main(void)
{
	return RUN_TESTS(tests);
}
