// SPDX-License-Identifier: GPL-2.0-or-later
/* Accesses in the order of time: their sums, the transfers between CPUs, and the budget of the windows that see them. */
#include <stdlib.h>

#include "watch/watch_budget.h"
#include "watch/watch_sums.h"
#include "tap.h"

static struct memory_budget memory;
static struct watch_sums sums;

static void begin(void)
{
	watch_sums_close(&sums);
	memory = (struct memory_budget){.limit = 1 << 20};
	watch_sums_open(&sums, &memory);
	watch_sums_begin(&sums);
}

static int hit(__u16 cpu, __u8 offset, __u8 access)
{
	return watch_sums_add(&sums, &(struct watch_hit){.cpu = cpu,
							 .offset = offset,
							 .access = access,
							 .code = 10 + offset,
							 .thread = cpu,
							 .kind = WATCH_NO_KIND});
}

#define READ      ACCESS_READ
#define WRITE     ACCESS_WRITE
#define READWRITE (ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED)

static void a_read_after_anothers_write(void)
{
	begin();
	CHECK(hit(0, 8, WRITE) == 0, "nobody wrote before");
	CHECK(hit(1, 8, READ) == 1, "the line comes from CPU 0");
	CHECK(hit(1, 8, READ) == 0, "it has it");
	CHECK(hit(2, 8, READ) == 0, "it is clean by now");
	CHECK(sums.transfer_count == 1, "%u pairs", sums.transfer_count);
	CHECK(sums.transfers[0].from_cpu == 0 && sums.transfers[0].cpu == 1 && !sums.transfers[0].write, "from 0 to 1");
}

static void writers_in_turn(void)
{
	int transfers = 0;

	begin();
	for (int i = 0; i < 100; i++)
		transfers += hit(i % 2, i % 2 ? 24 : 0, WRITE);
	CHECK(transfers == 99, "%d", transfers);
	CHECK(sums.transfer_count == 2, "%u pairs", sums.transfer_count);
	for (__u32 i = 0; i < sums.transfer_count; i++) {
		const struct watch_transfer_sum *sum = &sums.transfers[i];

		CHECK(sum->write && sum->from_cpu != sum->cpu, "both write");
		CHECK(sum->from_offset == (sum->from_cpu ? 24 : 0) && sum->offset == (sum->cpu ? 24 : 0), "offsets");
		CHECK(sum->from_code == 10u + sum->from_offset && sum->code == 10u + sum->offset, "code");
	}
}

static void one_cpu_alone(void)
{
	begin();
	for (int i = 0; i < 10; i++)
		CHECK(!hit(3, i, READWRITE), "no other CPU");
	CHECK(!hit(3, 0, READ), "its own");
	CHECK(!sums.transfer_count, "%u", sums.transfer_count);
}

static void readers_alone(void)
{
	begin();
	for (int i = 0; i < 10; i++)
		CHECK(!hit(i, 0, READ), "nobody writes");
}

static void what_was_not_watched_is_not_known(void)
{
	begin();
	hit(0, 0, WRITE);
	watch_sums_begin(&sums);
	CHECK(!hit(1, 0, READ), "a window between them");
}

/* An instruction that could not be told touched the line all the same; it counts as neither. */
static void an_unknown_access(void)
{
	begin();
	hit(0, 0, WRITE);
	CHECK(hit(1, 0, 0) == 1, "the line had to come");
	CHECK(!hit(1, 0, READ), "and is here");
	CHECK(sums.access_count == 2, "%u", sums.access_count);
}

static void sums_of_accesses(void)
{
	const struct watch_access_sum *sum = NULL;

	begin();
	hit(1, 4, READ);
	hit(9, 4, READ);
	for (int i = 0; i < 3; i++)
		watch_sums_add(&sums, &(struct watch_hit){.cpu = 9,
							  .offset = 4,
							  .access = READWRITE,
							  .code = 77,
							  .thread = 5,
							  .lock = 0xffff888000000000ull,
							  .kind = KIND_SPINLOCK,
							  .flags = i ? WATCH_INTERRUPTS_OFF : 0});
	for (__u32 i = 0; i < sums.access_count; i++)
		if (sums.accesses[i].code == 77)
			sum = &sums.accesses[i];
	CHECK(sums.access_count == 3, "%u", sums.access_count);
	if (!sum) {
		CHECK(sum, "the sum of that instruction");
		return;
	}
	CHECK(sum->records == 3 && sum->loads == 3 && sum->stores == 3 && sum->locked == 3, "counts");
	CHECK(sum->in_wait == 3 && sum->interrupts_off == 2, "%llu in a wait, %llu with interrupts off", sum->in_wait,
	      sum->interrupts_off);
	CHECK(sum->cpu_bytes == 2 && sum->cpus[0] == 0 && sum->cpus[1] == 2, "CPU 9 alone");
	CHECK(sums.wait_count == 1 && sums.waits[0].records == 3 && sums.waits[0].kind == KIND_SPINLOCK, "one lock");
}

static void transfers_in_a_wait(void)
{
	begin();
	hit(0, 0, WRITE);
	watch_sums_add(&sums, &(struct watch_hit){.cpu = 1, .access = READ, .lock = 42, .kind = KIND_MUTEX});
	watch_sums_add(&sums, &(struct watch_hit){.cpu = 1, .access = READ, .lock = 42, .kind = KIND_MUTEX});
	CHECK(sums.wait_count == 1 && sums.waits[0].records == 2 && sums.waits[0].transfers == 1, "one of two");
}

/* A model that looks at every pair of accesses agrees, for any order. */
static void as_a_model_of_caches(void)
{
	__u32 random = 7, modelled = 0, counted = 0;
	int dirty = -1;

	begin();
	for (int i = 0; i < 20000; i++) {
		int cpu, transfer;
		bool write;

		random = random * 1103515245 + 12345;
		cpu = random >> 16 & 3;
		write = random >> 20 & 1;
		transfer = dirty >= 0 && dirty != cpu;
		modelled += transfer;
		dirty = write ? cpu : transfer ? -1 : dirty;
		counted += hit(cpu, random >> 24 & 7, write ? WRITE : READ);
	}
	CHECK(modelled == counted, "%u, wanted %u", counted, modelled);
}

static void memory_is_bounded(void)
{
	int err = 0;

	begin();
	memory.limit = 64 << 10;
	for (__u32 i = 0; !err && i < 100000; i++)
		err = watch_sums_add(&sums, &(struct watch_hit){.code = i, .kind = WATCH_NO_KIND}) < 0;
	CHECK(!err, "what finds no room is no failure");
	CHECK(sums.refused > 90000 && sums.access_count, "%llu refused", sums.refused);
}

/* Windows as the thread makes them, each with hits at this rate while it lasts; the share that was spent. */
static double simulate(double share, __u64 hit_ns, double hits_per_ms, __u64 *longest)
{
	struct watch_budget budget;
	struct watch_pace pace = {.window_ns = WATCH_WINDOW_NS};
	__u64 now = 0, last = 0, spent = 0;

	*longest = 0;
	watch_budget_open(&budget, share, now);
	for (int i = 0; i < 2000; i++) {
		__u64 next = watch_budget_next(&budget, last, now, i * 37 & 255), hits;
		double wanted = hits_per_ms * pace.window_ns / 1e6;
		__u32 limit = watch_budget_limit(&budget, hit_ns);

		last = now = next > now ? next : now;
		hits = limit && wanted > limit ? limit : wanted;
		now += pace.window_ns;
		*longest = pace.window_ns > *longest ? pace.window_ns : *longest;
		spent += hits * hit_ns + 20000;
		watch_budget_spend(&budget, &pace, hits * hit_ns + 20000, limit && hits >= limit);
	}
	return (double)spent / now;
}

static void the_budget_is_kept(void)
{
	static const double rates[] = {0, 0.1, 5, 100, 1000};
	static const double shares[] = {0.001, 0.01, 0.1};
	__u64 longest;

	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++)
		for (size_t j = 0; j < sizeof(shares) / sizeof(*shares); j++) {
			double spent = simulate(shares[j], 10000, rates[i], &longest);

			CHECK(spent <= shares[j] * 1.02, "%f of %f at %f hits/ms", spent, shares[j], rates[i]);
		}
}

static void a_quiet_line_is_watched_long(void)
{
	__u64 longest;

	simulate(0.01, 10000, 0.1, &longest);
	CHECK(longest == WATCH_MOST_NS, "%llu", longest);
	simulate(0.01, 10000, 1000, &longest);
	CHECK(longest == WATCH_WINDOW_NS, "%llu", longest);
}

static void full_has_no_limit(void)
{
	struct watch_budget budget;
	struct watch_pace pace = {.window_ns = WATCH_WINDOW_NS};

	watch_budget_open(&budget, 0, 5);
	CHECK(!watch_budget_limit(&budget, 10000), "hits");
	watch_budget_spend(&budget, &pace, 10000000000, false);
	CHECK(watch_budget_next(&budget, 5, 77, 0) == 77, "at once");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_read_after_anothers_write),
		TEST(writers_in_turn),
		TEST(one_cpu_alone),
		TEST(readers_alone),
		TEST(what_was_not_watched_is_not_known),
		TEST(an_unknown_access),
		TEST(sums_of_accesses),
		TEST(transfers_in_a_wait),
		TEST(as_a_model_of_caches),
		TEST(memory_is_bounded),
		TEST(the_budget_is_kept),
		TEST(a_quiet_line_is_watched_long),
		TEST(full_has_no_limit),
	};
	int failed = RUN_TESTS(tests);

	watch_sums_close(&sums);
	return failed;
}
