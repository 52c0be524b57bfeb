// SPDX-License-Identifier: GPL-2.0-or-later
/* Made-up rings of relief records and turns, and the rows that are made of them. */
#include <stdlib.h>

#include "episodes/timeline.h"
#include "tap.h"

#define CPUS     8
#define RING     1024
#define HOLDINGS 16
#define LOCK     0xffff888000001000ull

static struct sizing sizing = {.cpus = CPUS, .ring_context = RING, .ring_holdings = HOLDINGS};
static struct maps maps = {.sizing = &sizing};
static struct context_state states[CPUS + 1]; /* the last: of CPUs beyond, which are idle */
static struct context_record rings[CPUS][RING];
static struct release_state releases[CPUS + 1];
static struct holding_record holdings[CPUS][HOLDINGS];
static struct timeline timeline;
static struct timeline_window window;

/* Of maps.c and holders.c, for arrays of our own. */
struct ring maps_context(const struct maps *of, __u32 cpu)
{
	return (struct ring){
		.records = rings[cpu % CPUS],
		.written = &states[cpu < CPUS ? cpu : CPUS].records,
		.count = RING,
		.bytes = sizeof(struct context_record),
		.sequence = offsetof(struct context_record, sequence),
	};
}

struct ring maps_holdings(const struct maps *of, __u32 cpu)
{
	return (struct ring){
		.records = holdings[cpu % CPUS],
		.written = &releases[cpu < CPUS ? cpu : CPUS].holdings,
		.count = HOLDINGS,
		.bytes = sizeof(struct holding_record),
		.sequence = offsetof(struct holding_record, sequence),
	};
}

__s64 holders_stack(const struct holders *holders, __u32 cpu, __u64 position)
{
	return 100 + position;
}

static void empty(void)
{
	memset(states, 0, sizeof(states));
	memset(rings, 0, sizeof(rings));
	memset(releases, 0, sizeof(releases));
	memset(holdings, 0, sizeof(holdings));
	window = (struct timeline_window){.from_ns = 10000000, .to_ns = 20000000, .tid = 7, .lock = LOCK};
}

static struct context_record *put(__u32 cpu, __u64 time, enum context_type type, __u32 tid, __u32 other, __u32 value)
{
	__u64 position = states[cpu].records++;
	struct context_record *record = &rings[cpu][position % RING];

	*record = (struct context_record){.sequence = position + 1,
					  .time_ns = time,
					  .type = type,
					  .tid = tid,
					  .other_tid = other,
					  .value = value};
	return record;
}

static void put_holding(__u32 cpu, __u64 time, __u64 begin, __u32 tid, __u64 lock)
{
	__u64 position = releases[cpu].holdings++;

	holdings[cpu][position % HOLDINGS] = (struct holding_record){.sequence = position + 1,
								     .time_ns = time,
								     .begin_ns = begin,
								     .lock = lock,
								     .tid = tid,
								     .flags = begin ? 0 : HOLDING_RELEASE,
								     .stack = begin ? 0 : 1};
}

static void read(bool holders)
{
	timeline_free(&timeline);
	CHECK(!timeline_read(&timeline, &maps, holders ? (void *)&timeline : NULL, &window), "it can be read");
}

static bool has_cpu(__u32 cpu)
{
	return timeline.cpus[cpu / 8] >> cpu % 8 & 1;
}

static void window_alone(void)
{
	empty();
	put(0, 9999999, CONTEXT_SWITCH, 1, 2, 0);
	put(0, 10000000, CONTEXT_SWITCH, 2, 7, 1);
	put(0, 20000000, CONTEXT_SWITCH, 7, 2, 0);
	put(0, 20000001, CONTEXT_SWITCH, 2, 1, 0);
	read(false);
	CHECK(timeline.count == 2, "%zu", timeline.count);
	CHECK(timeline.rows[0].time_ns == 10000000 && timeline.rows[0].other_tid == 7, "the first");
	CHECK(timeline.complete, "the ring never came round");
}

static void cpus_that_matter(void)
{
	empty();
	window.cpu = 1;
	window.begin_cpu = 2;
	window.holder = 9;
	for (__u32 cpu = 0; cpu < CPUS; cpu++)
		put(cpu, 15000000 + cpu, CONTEXT_SWITCH, 50, 51, 0);
	put(3, 16000000, CONTEXT_WAKING, 50, 7, 0);
	put(4, 16000000, CONTEXT_SWITCH, 9, 50, 1);
	put_holding(5, 16000000, 0, 60, LOCK);
	put_holding(6, 16000000, 0, 60, LOCK + 64);
	read(true);
	for (__u32 cpu = 0; cpu < CPUS; cpu++)
		CHECK(has_cpu(cpu) == (cpu >= 1 && cpu <= 5), "CPU %u", cpu);
	window.tid = 0;
	read(true);
	CHECK(has_cpu(0) && has_cpu(7), "without a waiter all of them");
}

static void interrupts_have_lengths(void)
{
	empty();
	memcpy(put(0, 11000000, CONTEXT_INTERRUPT_ENTRY, 7, 0, 33)->name, "eth0", 5);
	put(0, 11000100, CONTEXT_SOFTIRQ_ENTRY, 7, 0, 3);
	put(0, 11000200, CONTEXT_VECTOR_ENTRY, 7, 0, VECTOR_RESCHEDULE);
	put(0, 11000250, CONTEXT_VECTOR_EXIT, 7, 0, VECTOR_RESCHEDULE);
	put(0, 11000400, CONTEXT_SOFTIRQ_EXIT, 7, 0, 3);
	put(0, 11000900, CONTEXT_INTERRUPT_EXIT, 7, 0, 33);
	put(0, 11001000, CONTEXT_SOFTIRQ_EXIT, 7, 0, 1);     /* its entry was before the window */
	put(0, 11002000, CONTEXT_INTERRUPT_ENTRY, 7, 0, 34); /* its exit is not there */
	read(false);
	CHECK(timeline.count == 4, "%zu", timeline.count);
	CHECK(timeline.rows[0].length_ns == 900, "%llu", (unsigned long long)timeline.rows[0].length_ns);
	CHECK_TEXT(timeline.rows[0].name, "eth0");
	CHECK(timeline.rows[1].length_ns == 300, "%llu", (unsigned long long)timeline.rows[1].length_ns);
	CHECK(timeline.rows[2].length_ns == 50, "%llu", (unsigned long long)timeline.rows[2].length_ns);
	CHECK_TEXT(timeline.rows[2].name, "reschedule");
	CHECK(!timeline.rows[3].length_ns, "not known");
}

static void turns_of_a_loop(void)
{
	empty();
	for (int i = 0; i < 20; i++)
		put(0, 11000000 + i * 1000, CONTEXT_WAIT_TASK, 9, 7, 0);
	put(0, 11030000, CONTEXT_VECTOR_ENTRY, 9, 0, VECTOR_LOCAL_TIMER);
	put(0, 11031000, CONTEXT_VECTOR_EXIT, 9, 0, VECTOR_LOCAL_TIMER);
	put(0, 11040000, CONTEXT_WAIT_TASK, 9, 7, 0);
	put(0, 11041000, CONTEXT_WAIT_TASK, 9, 8, 0);
	read(false);
	CHECK(timeline.count == 4, "%zu", timeline.count);
	CHECK(timeline.rows[0].value == 20 && timeline.rows[0].length_ns == 19000, "%u in %llu", timeline.rows[0].value,
	      (unsigned long long)timeline.rows[0].length_ns);
	CHECK(timeline.rows[2].value == 1 && timeline.rows[3].value == 1, "another tracee is another loop");
}

static void overwritten(void)
{
	empty();
	for (int i = 0; i < RING + 1; i++)
		put(0, 11000000 + i, CONTEXT_SWITCH, 7, 2, 0);
	read(false);
	CHECK(timeline.count == RING, "%zu", timeline.count);
	CHECK(!timeline.complete, "the first one is gone");
	empty();
	put(0, 8000000, CONTEXT_SWITCH, 7, 2, 0);
	put(0, 8000001, CONTEXT_SWITCH, 7, 2, 0);
	for (int i = 0; i < RING - 1; i++)
		put(0, 11000000 + i, CONTEXT_SWITCH, 7, 2, 0);
	read(false);
	CHECK(timeline.complete, "what was lost lay before the window");
	CHECK(timeline.count == RING - 1, "%zu", timeline.count);
}

static void torn(void)
{
	empty();
	put(0, 11000000, CONTEXT_SWITCH, 7, 2, 0);
	put(0, 11000001, CONTEXT_SWITCH, 7, 2, 0)->sequence = 0;
	put(0, 11000002, CONTEXT_SWITCH, 7, 2, 0);
	put(0, 11000003, 200, 7, 2, 0); /* of no type that is known */
	read(false);
	CHECK(timeline.count == 2, "%zu", timeline.count);
}

static void holdings_of_the_lock(void)
{
	empty();
	put_holding(1, 12000000, 0, 60, LOCK);
	put_holding(0, 13000000, 11000000, 7, LOCK);
	put_holding(0, 14000000, 0, 7, LOCK);
	put_holding(0, 30000000, 0, 7, LOCK);
	read(true);
	CHECK(timeline.count == 3, "%zu", timeline.count);
	CHECK(timeline.rows[0].type == TIMELINE_RELEASE && timeline.rows[0].tid == 60, "the holder's");
	CHECK(timeline.rows[0].stack == 100, "%lld", (long long)timeline.rows[0].stack);
	CHECK(timeline.rows[1].type == TIMELINE_ACQUIRED && timeline.rows[1].length_ns == 2000000, "the waiter's");
	read(false);
	CHECK(!timeline.count, "without --holders none");
}

/* The holder went off its CPU long before the waiter came; another task's records are of no interest. */
static void what_holders_did_before(void)
{
	empty();
	put(3, 1000000, CONTEXT_SWITCH, 60, 61, 1);
	put(3, 2000000, CONTEXT_SWITCH, 61, 60, 0);
	put(3, 3000000, CONTEXT_SWITCH_THROTTLED, 60, 61, 0);
	put(3, 4000000, CONTEXT_SWITCH, 61, 62, 0);
	put(0, 2500000, CONTEXT_WAKING, 61, 60, 0);
	put_holding(1, 12000000, 0, 60, LOCK);
	read(true);
	CHECK(timeline.count == 2, "%zu", timeline.count);
	CHECK(timeline.rows[0].time_ns == 3000000 && timeline.rows[0].cpu == 3, "its last record, on any CPU");
	CHECK(timeline.rows[0].type == TIMELINE_SWITCH && timeline.rows[0].throttled, "it was throttled");
	CHECK(!has_cpu(3), "no record of the window is of that CPU");
	put(0, 5000000, CONTEXT_WAKEUP, 61, 60, 3);
	read(true);
	CHECK(timeline.rows[0].time_ns == 5000000 && !timeline.rows[0].throttled, "woken after that");
	window.tid = 0;
	read(true);
	CHECK(timeline.rows[0].time_ns == 12000000, "of a moment there is no holder");
}

static void who_is_throttled(void)
{
	empty();
	put(0, 11000000, CONTEXT_SWITCH_THROTTLED, 7, 2, 0);
	put(0, 12000000, CONTEXT_WAKEUP_THROTTLED, 2, 9, 0);
	put(0, 13000000, CONTEXT_SWITCH, 2, 7, 0);
	read(false);
	CHECK(timeline.rows[0].type == TIMELINE_SWITCH && timeline.rows[0].throttled, "switched out");
	CHECK(timeline.rows[1].type == TIMELINE_WAKEUP && timeline.rows[1].throttled, "woken");
	CHECK(!timeline.rows[2].throttled, "neither");
}

static void cpus_sent_to(void)
{
	static const struct {
		unsigned char bits[16];
		const char *name;
		__u32 value;
	} sent[] = {
		{{0x04}, "", 2},          {{0x8b}, "0-1,3,7", ~0u},
		{{0xff}, "0-7", ~0u},     {{0x06, 0xff}, "1-2", ~0u}, /* there are no CPUs beyond these */
		{{0x55}, "0,2,4,6", ~0u},
	};

	empty();
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
		memcpy(put(0, 11000000 + i, CONTEXT_IPIS_SENT, 7, 0, 0)->name, sent[i].bits, sizeof(sent[i].bits));
	read(false);
	CHECK(timeline.count == sizeof(sent) / sizeof(sent[0]), "%zu", timeline.count);
	for (size_t i = 0; i < timeline.count; i++) {
		CHECK(timeline.rows[i].type == TIMELINE_IPI_SENT, "row %zu", i);
		CHECK_TEXT(timeline.rows[i].name, sent[i].name);
		CHECK(timeline.rows[i].value == sent[i].value, "row %zu: %u", i, timeline.rows[i].value);
	}
}

/* Masks come in records of IPI_CPUS CPUs. */
static void ipis_to_many_cpus(void)
{
	static const struct {
		__u32 first;
		unsigned char bits[16];
		const char *name;
		__u32 value;
	} sent[] = {
		{0, {[15] = 0x80}, "", 127}, {128, {0x0f}, "128-131", ~0u},
		{128, {[1] = 1}, "", 136},   {256, {[5] = 0xff}, "296-299", ~0u}, /* there are 300 */
		{384, {0xff}, "", ~0u},
	};

	empty();
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
		memcpy(put(0, 11000000 + i, CONTEXT_IPIS_SENT, 7, 0, sent[i].first)->name, sent[i].bits,
		       sizeof(sent[i].bits));
	sizing.cpus = 300;
	read(false);
	sizing.cpus = CPUS;
	CHECK(timeline.count == sizeof(sent) / sizeof(sent[0]), "%zu", timeline.count);
	for (size_t i = 0; i < timeline.count; i++) {
		CHECK_TEXT(timeline.rows[i].name, sent[i].name);
		CHECK(timeline.rows[i].value == sent[i].value, "row %zu: %u", i, timeline.rows[i].value);
	}
}

/* Who got the lock last, if the waiter waited already and nobody let go of it since. */
static void who_has_it_now(void)
{
	empty();
	CHECK(!timeline_taker(&maps, LOCK, 10000000), "no turns");
	put_holding(0, 9000000, 8000000, 50, LOCK);
	CHECK(!timeline_taker(&maps, LOCK, 10000000), "it may have let go before anybody waited");
	put_holding(1, 11000000, 0, 50, LOCK);
	put_holding(2, 11000100, 8500000, 60, LOCK);
	put_holding(3, 11500000, 8500000, 70, LOCK + 64);
	CHECK(timeline_taker(&maps, LOCK, 10000000) == 60, "%u", timeline_taker(&maps, LOCK, 10000000));
	CHECK(timeline_taker(&maps, LOCK + 64, 10000000) == 70, "of the other lock");
	put_holding(1, 12000000, 0, 60, LOCK);
	CHECK(!timeline_taker(&maps, LOCK, 10000000), "somebody took it without waiting, or nobody has it");
	put_holding(0, 12000100, 9000000, 50, LOCK);
	CHECK(timeline_taker(&maps, LOCK, 10000000) == 50, "again");
	put_holding(0, 13000000, 0, 50, LOCK);
	holdings[0][(releases[0].holdings - 1) % HOLDINGS].sequence = 0;
	CHECK(!timeline_taker(&maps, LOCK, 10000000), "a turn is in the making");
}

static void too_many(void)
{
	empty();
	sizing.ring_context = RING;
	window.to_ns = ~0ull >> 1;
	for (__u32 cpu = 0; cpu < CPUS; cpu++)
		for (int i = 0; i < RING; i++)
			put(cpu, 11000000 + i * 100 + cpu, CONTEXT_WAKING, 7, 2, 0);
	read(false);
	CHECK(timeline.count == TIMELINE_ROWS, "%zu", timeline.count);
	CHECK(timeline.left_out == CPUS * RING - TIMELINE_ROWS, "%llu", (unsigned long long)timeline.left_out);
	CHECK(timeline.rows[0].time_ns == 11000000, "the first is there");
	CHECK(timeline.rows[timeline.count - 1].time_ns == 11000000 + (RING - 1) * 100 + CPUS - 1, "and the last");
	for (size_t i = 1; i < timeline.count; i++)
		if (timeline.rows[i].time_ns < timeline.rows[i - 1].time_ns) {
			CHECK(false, "row %zu is before its neighbour", i);
			break;
		}
}

int main(void)
{
	static const struct test tests[] = {
		TEST(window_alone),         TEST(cpus_that_matter), TEST(interrupts_have_lengths),
		TEST(turns_of_a_loop),      TEST(overwritten),      TEST(torn),
		TEST(holdings_of_the_lock), TEST(too_many),         TEST(what_holders_did_before),
		TEST(who_is_throttled),     TEST(cpus_sent_to),     TEST(ipis_to_many_cpus),
		TEST(who_has_it_now),
	};
	int failed = RUN_TESTS(tests);

	timeline_free(&timeline);
	return failed;
}
