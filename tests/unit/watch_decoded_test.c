// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads and writes by two watchpoints at one place: pairs of records, what they tell, and which places have them. */
#include "watch/watch_code.h"
#include "watch/watch_events.h"
#include "watch/watch_pairs.h"
#include "watch/watch_decoded.h"
#include "watch/watch_schedule.h"
#include "tap.h"

#define ANY  0 /* by the watchpoint for reads, or for both */
#define ONLY WATCH_ONLY_READ
#define W    WATCH_WROTE

static struct watch_record records[32];
static __u64 count;

static void begin(void)
{
	memset(records, 0, sizeof(records));
	count = 0;
}

/* A record of CPU 1, in the order of its ring. */
static struct watch_record *add(__u64 ip, __u16 offset, __u8 flags)
{
	struct watch_record *record = &records[count];

	*record = (struct watch_record){
		.sequence = count + 1, .ns = 1000 + 100 * count, .ip = ip, .offset = offset, .flags = flags, .cpu = 1};
	count++;
	return record;
}

static void expect(const __u8 *flags, size_t wanted)
{
	CHECK(count == wanted, "%llu records, wanted %zu", count, wanted);
	for (size_t i = 0; i < wanted && i < count; i++)
		CHECK(records[i].flags == flags[i], "record %zu: flags %u, wanted %u", i, records[i].flags, flags[i]);
}

#define MERGE(both, ...)                                         \
	({                                                       \
		static const __u8 flags[] = {__VA_ARGS__};       \
		count = watch_pairs_merge(records, count, both); \
		expect(flags, sizeof(flags));                    \
	})

static void a_write_hits_both(void)
{
	begin();
	add(10, 8, ANY);
	add(10, 8, W);
	add(11, 8, ANY);
	add(12, 8, ANY);
	add(12, 8, W);
	MERGE(true, W, ONLY, W);
	CHECK(records[0].ns == 1000 && records[2].ns == 1300, "the time of the first of two");
}

/* Whichever register comes first. */
static void in_either_order(void)
{
	begin();
	add(10, 8, W);
	add(10, 8, ANY);
	add(11, 8, ANY);
	MERGE(true, W, ONLY);
}

/* The same instruction, round after round, with the same registers. */
static void a_loop(void)
{
	begin();
	for (int i = 0; i < 4; i++) {
		add(10, 8, ANY);
		add(10, 8, W);
	}
	MERGE(true, W, W, W, W);
	begin();
	for (int i = 0; i < 4; i++)
		add(10, 8, ANY);
	MERGE(true, ONLY, ONLY, ONLY, ONLY);
}

/* A compare-and-exchange of an emulator that writes only if it is equal: once not, once so. */
static void an_instruction_that_writes_at_times(void)
{
	begin();
	add(10, 8, ANY);
	add(10, 8, ANY);
	add(10, 8, W);
	MERGE(true, ONLY, W);
}

/* Sixteen bytes: two places in one exception, by place or by kind. */
static void two_places_at_once(void)
{
	begin();
	add(10, 0, ANY);
	add(10, 0, W);
	add(10, 8, ANY);
	add(10, 8, W);
	MERGE(true, W, W);
	begin();
	add(10, 0, ANY);
	add(10, 8, ANY);
	add(10, 0, W);
	add(10, 8, W);
	MERGE(true, W, W);
	/* It reads one and writes the other, as a string instruction does. */
	begin();
	add(10, 0, ANY);
	add(10, 8, ANY);
	add(10, 8, W);
	MERGE(true, ONLY, W);
}

/* What differs in anything is of another exception. */
static void not_a_pair(void)
{
	struct watch_record *second;

	for (int i = 0; i < 7; i++) {
		begin();
		add(10, 8, ANY);
		second = add(10, 8, W);
		second->ip += i == 0;
		second->offset += 8 * (i == 1);
		second->tid += i == 2;
		second->registers[3] += i == 3;
		second->flags |= i == 4 ? WATCH_USER : 0;
		second->flags |= i == 5 ? WATCH_INTERRUPTS_OFF : 0;
		CHECK(watch_is_pair(&records[0], second) == (i == 6), "difference %d", i);
		count = watch_pairs_merge(records, count, true);
		CHECK(count == 1, "%llu records", count);
		CHECK(records[0].flags == (i == 6 ? W : ONLY), "difference %d: flags %u", i, records[0].flags);
	}
}

static void user_and_kernel(void)
{
	begin();
	add(10, 8, WATCH_USER);
	add(10, 8, W | WATCH_USER);
	add(20, 8, WATCH_INTERRUPTS_OFF);
	add(20, 8, W | WATCH_INTERRUPTS_OFF);
	add(10, 8, WATCH_USER);
	MERGE(true, W | WATCH_USER, W | WATCH_INTERRUPTS_OFF, ONLY | WATCH_USER);
}

/* Torn or overwritten: what was beside it is not told to have only read. */
static void one_of_a_pair_is_lost(void)
{
	begin();
	add(10, 8, ANY);
	add(11, 8, ANY);
	add(12, 8, ANY);
	records[1].sequence = 3;
	records[2].sequence = 4;
	MERGE(true, ANY, ANY, ONLY);
	/* Its partner told of the write, if that alone is left. */
	begin();
	add(11, 8, ANY);
	add(10, 8, W);
	add(12, 8, ANY);
	records[1].sequence = 3;
	records[2].sequence = 4;
	MERGE(true, ANY, W, ONLY);
}

/* One that the other watchpoint did not count, as that was not set yet. */
static void a_write_alone(void)
{
	begin();
	add(10, 8, W);
	add(11, 8, ANY);
	add(12, 8, W);
	MERGE(true, ONLY);
}

static void arm64_hits_one(void)
{
	begin();
	add(10, 8, ANY);
	add(11, 8, W);
	add(11, 8, W);
	MERGE(false, ONLY, W, W);
}

#define R      ACCESS_READ
#define WR     ACCESS_WRITE
#define ATOMIC (ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED)

static void tell(enum watch_access_from from, __u8 decoded, __u8 flags, struct watch_kind kind, bool both,
		 enum watch_decoded told, __u8 access)
{
	__u8 found;
	enum watch_decoded by = watch_tell(from, decoded, flags, &kind, both, &found);

	CHECK(by == told && found == access, "decoded %u, flags %u: %u by %d, wanted %u by %d", decoded, flags, found,
	      by, access, told);
}

static void who_tells(void)
{
	const struct watch_kind none = {}, writer = {.wrote = 3}, reader = {.only_read = 1}, mixed = {1, 1};
	const enum watch_access_from either = ACCESS_FROM_EITHER, watchpoint = ACCESS_FROM_WATCHPOINT;

	tell(either, R, ANY, none, true, DECODED_BY_INSTRUCTION, R);
	tell(either, ATOMIC, W, writer, true, DECODED_BY_INSTRUCTION, ATOMIC);
	tell(either, R, ONLY, reader, true, DECODED_BY_INSTRUCTION, R);
	tell(either, 0, ANY, none, true, DECODED_NOT, 0);
	tell(either, 0, W, writer, true, DECODED_BY_WATCHPOINT, WR);
	tell(either, 0, ONLY, reader, true, DECODED_BY_WATCHPOINT, R);
	/* In other windows, or where half of a pair is missing. */
	tell(either, 0, ANY, writer, true, DECODED_BEFORE, WR);
	tell(either, 0, ANY, reader, true, DECODED_BEFORE, R);
	tell(either, 0, ANY, mixed, true, DECODED_NOT, 0);
	/* The disassembler is wrong. */
	tell(either, WR, ONLY, reader, true, DECODED_BY_WATCHPOINT, R);
	tell(either, R, W, writer, true, DECODED_BY_WATCHPOINT, WR);
	/* Without it: that what wrote had read before is not told. */
	tell(watchpoint, ATOMIC, W, writer, true, DECODED_BY_WATCHPOINT, WR);
	tell(watchpoint, WR, ONLY, reader, true, DECODED_BY_WATCHPOINT, R);
	tell(watchpoint, R, ANY, none, true, DECODED_NOT, 0);
}

static void atomics_of_arm64(void)
{
	const struct watch_kind none = {};

	for (int i = 0; i < 2; i++) {
		__u8 flags = i ? W : ONLY;

		tell(ACCESS_FROM_EITHER, ATOMIC, flags, none, false, DECODED_BY_INSTRUCTION, ATOMIC);
		tell(ACCESS_FROM_WATCHPOINT, ATOMIC, flags, none, false, DECODED_BY_WATCHPOINT, R | WR);
		CHECK(watch_agree(ATOMIC, flags, false), "whichever it hit");
	}
	/* Exclusive loads and stores are what they are. */
	tell(ACCESS_FROM_WATCHPOINT, R | ACCESS_LOCKED, ONLY, none, false, DECODED_BY_WATCHPOINT, R);
	tell(ACCESS_FROM_WATCHPOINT, WR | ACCESS_LOCKED, W, none, false, DECODED_BY_WATCHPOINT, WR);
	CHECK(!watch_agree(R, W, false) && !watch_agree(WR, ONLY, false), "a load stores nothing");
	CHECK(!watch_agree(ATOMIC, ONLY, true), "x86's atomics write");
}

static struct watch_decoded_sums sums;
static struct memory_budget memory;

static void told(__u32 times, __u32 code, __u8 decoded, __u8 flags)
{
	struct watch_kind kind = {};
	__u8 access;

	for (__u32 i = 0; i < times; i++) {
		enum watch_decoded by = watch_tell(ACCESS_FROM_EITHER, decoded, flags, &kind, true, &access);

		CHECK(!watch_decoded_add(&sums, &memory, code, by, decoded, flags, true), "added");
	}
}

static void begin_sums(void)
{
	watch_decoded_close(&sums);
	memory = (struct memory_budget){.limit = 1 << 20};
}

/* Once too many are not told, typed windows come; they go when what they tell is enough. */
static void when_windows_are_typed(void)
{
	begin_sums();
	told(100000, 1, R, ANY);
	CHECK(!watch_typed_every(&sums), "all are classified");
	told(1, 2, 0, ANY);
	CHECK(!watch_typed_every(&sums), "one is no reason");
	for (int i = 0; i < 40; i++) {
		told(100, 1, R, ANY);
		told(5, 2, 0, ANY);
		watch_typed_every(&sums);
	}
	CHECK(watch_typed_every(&sums) > 1, "one in twenty");
	for (int i = 0; i < 100; i++) {
		told(100, 1, R, ANY);
		watch_typed_every(&sums);
	}
	CHECK(!watch_typed_every(&sums), "told again");
}

static void what_differs_is_counted(void)
{
	begin_sums();
	told(5, 7, R, ONLY);
	told(3, 7, R, W);
	told(2, 8, 0, W);
	told(4, 9, WR, ANY);
	CHECK(sums.by[DECODED_BY_INSTRUCTION] == 9 && sums.by[DECODED_BY_WATCHPOINT] == 5, "%llu, %llu",
	      sums.by[DECODED_BY_INSTRUCTION], sums.by[DECODED_BY_WATCHPOINT]);
	CHECK(sums.compared == 8 && sums.disagreed == 3, "%llu of %llu", sums.disagreed, sums.compared);
	CHECK(sums.comparison_count == 2, "%u", sums.comparison_count);
	CHECK(sums.comparisons[0].only_read == 5 && sums.comparisons[0].wrote == 3, "by instruction");
	CHECK_TEXT(watch_access_from(ACCESS_FROM_EITHER, &sums), "instruction and watchpoint");
	CHECK_TEXT(watch_access_from(ACCESS_FROM_WATCHPOINT, &sums), "watchpoint");
	begin_sums();
	CHECK_TEXT(watch_access_from(ACCESS_FROM_EITHER, &sums), "instruction");
	memory.limit = 256;
	for (__u32 i = 0; i < 1000; i++)
		told(1, i, R, ONLY);
	CHECK(sums.compared == 1000, "counted without room for each instruction");
	watch_decoded_close(&sums);
}

/* How often each place, and each pair of places, was watched in so many windows of a kind. */
struct coverage {
	__u32 windows;
	__u32 places[WATCH_PLACES];
	__u32 pairs[WATCH_PLACES][WATCH_PLACES];
	int most; /* places in one window */
};

static void look(struct watch_schedule *turns, __u32 windows, struct coverage plain[2])
{
	memset(plain, 0, 2 * sizeof(*plain));
	for (__u32 i = 0; i < windows; i++) {
		struct watch_selection turn;
		struct coverage *seen;

		watch_schedule_next(turns, &turn);
		seen = &plain[turn.typed];
		seen->windows++;
		if (__builtin_popcount(turn.places) > seen->most)
			seen->most = __builtin_popcount(turn.places);
		for (int one = 0; one < WATCH_PLACES; one++)
			for (int other = 0; other < WATCH_PLACES; other++)
				seen->pairs[one][other] += turn.places >> one & turn.places >> other & 1;
		for (int place = 0; place < WATCH_PLACES; place++)
			seen->places[place] += turn.places >> place & 1;
	}
}

static void all_places_have_their_turn(void)
{
	struct watch_schedule turns;
	struct coverage seen[2];

	watch_schedule_open(&turns, 0xff, 4);
	look(&turns, 600, seen);
	CHECK(seen[0].windows == 600 && seen[0].most == 4, "none is typed: %u", seen[1].windows);
	turns.typed_every = 1;
	look(&turns, 2800, seen);
	CHECK(seen[1].windows == 2800 && seen[1].most == 2, "all are: %u", seen[0].windows);
	for (int place = 0; place < WATCH_PLACES; place++)
		CHECK(seen[1].places[place] == 700, "place %d: %u", place, seen[1].places[place]);
	turns.typed_every = 4;
	look(&turns, 2800, seen);
	CHECK(seen[1].windows == 700, "one in four: %u", seen[1].windows);
	for (int one = 0; one < WATCH_PLACES; one++)
		for (int other = 0; other < WATCH_PLACES; other++) {
			CHECK(seen[0].pairs[one][other] >= 300, "%d and %d: %u", one, other, seen[0].pairs[one][other]);
			CHECK(seen[1].pairs[one][other] == (one == other ? 175 : 25), "%d and %d: %u", one, other,
			      seen[1].pairs[one][other]);
		}
}

static void few_places_are_watched_always(void)
{
	struct watch_schedule turns;
	struct coverage seen[2];
	struct watch_selection turn;

	watch_schedule_open(&turns, 0x09, 4);
	CHECK(watch_schedule_typed_are_whole(&turns), "two places, four registers");
	turns.typed_every = 1;
	watch_schedule_next(&turns, &turn);
	CHECK(turn.typed && turn.places == 0x09 && watch_schedule_stay(&turns, &turn), "places %#x", turn.places);
	turns.typed_every = 0;
	CHECK(!watch_schedule_stay(&turns, &turn), "another kind is wanted");
	watch_schedule_next(&turns, &turn);
	CHECK(!turn.typed && turn.places == 0x09 && watch_schedule_stay(&turns, &turn), "places %#x", turn.places);
	/* Of three places two are watched at once; with one register none can be typed. */
	watch_schedule_open(&turns, 0x07, 4);
	CHECK(!watch_schedule_typed_are_whole(&turns), "three places");
	turns.typed_every = 1;
	look(&turns, 30, seen);
	for (int place = 0; place < 3; place++)
		CHECK(seen[1].places[place] == 20, "place %d: %u", place, seen[1].places[place]);
	watch_schedule_open(&turns, 0xff, 1);
	turns.typed_every = 1;
	look(&turns, 8, seen);
	CHECK(!seen[1].windows && seen[0].most == 1, "one register");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_write_hits_both),
		TEST(in_either_order),
		TEST(a_loop),
		TEST(an_instruction_that_writes_at_times),
		TEST(two_places_at_once),
		TEST(not_a_pair),
		TEST(user_and_kernel),
		TEST(one_of_a_pair_is_lost),
		TEST(a_write_alone),
		TEST(arm64_hits_one),
		TEST(who_tells),
		TEST(atomics_of_arm64),
		TEST(when_windows_are_typed),
		TEST(what_differs_is_counted),
		TEST(all_places_have_their_turn),
		TEST(few_places_are_watched_always),
	};

	return RUN_TESTS(tests);
}
