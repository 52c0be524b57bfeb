// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads rings as the programs write them: in turn with the writer, and against a writer that never waits. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/ring.h"
#include "tap.h"

#define COUNT 8
#define WORDS 30
/* For what comes sooner or later on any machine. */
#define PATIENCE_S 120

/* The sequence does not come first: where it is belongs to the ring. */
struct record {
	__u64 position;
	__u64 sequence;
	__u64 words[WORDS];
};

static struct record records[COUNT];
static __u64 written;
static const struct ring ring = {
	.records = records,
	.written = &written,
	.count = COUNT,
	.bytes = sizeof(struct record),
	.sequence = offsetof(struct record, sequence),
};

static void empty(void)
{
	memset(records, 0, sizeof(records));
	written = 0;
}

static struct record *begin_record(void)
{
	__u64 position = written;
	struct record *record = &records[position % COUNT];

	__atomic_store_n(&written, position + 1, __ATOMIC_RELEASE);
	__atomic_exchange_n(&record->sequence, 0, __ATOMIC_SEQ_CST);
	record->position = position;
	for (int i = 0; i < WORDS; i++)
		*(volatile __u64 *)&record->words[i] = position;
	return record;
}

static void end_record(struct record *record)
{
	__atomic_exchange_n(&record->sequence, record->position + 1, __ATOMIC_SEQ_CST);
}

static void put(int count)
{
	while (count--)
		end_record(begin_record());
}

/* Reads on from *position and checks that the records come in order; how many. */
static int read_on(__u64 *position, struct ring_losses *losses)
{
	struct ring_pass pass;
	struct record copy;
	int count = 0;

	ring_begin(&pass, &ring, *position, losses);
	while (ring_next(&pass, &copy, losses)) {
		CHECK(copy.position == pass.position - 1, "%llu at %llu", copy.position, pass.position - 1);
		CHECK(copy.words[0] == copy.position && copy.words[WORDS - 1] == copy.position, "a mix of two records");
		count++;
	}
	*position = pass.position;
	return count;
}

static void one_after_the_other(void)
{
	struct ring_losses losses = {};
	__u64 position = 0;

	empty();
	CHECK(!read_on(&position, &losses), "nothing is there");
	for (int round = 0; round < 5; round++) {
		put(3);
		CHECK(read_on(&position, &losses) == 3, "round %d", round);
	}
	put(COUNT);
	CHECK(read_on(&position, &losses) == COUNT, "a full ring");
	CHECK(position == 15 + COUNT, "%llu", position);
	CHECK(!losses.overwritten && !losses.torn, "%llu %llu", losses.overwritten, losses.torn);
}

static void the_oldest_are_lost(void)
{
	struct ring_losses losses = {};
	__u64 position = 0;

	empty();
	put(COUNT + 3);
	CHECK(read_on(&position, &losses) == COUNT, "what is left");
	CHECK(losses.overwritten == 3 && !losses.torn, "%llu %llu", losses.overwritten, losses.torn);
	put(100 * COUNT);
	CHECK(read_on(&position, &losses) == COUNT, "what is left");
	CHECK(losses.overwritten == 3 + 99 * COUNT, "%llu", losses.overwritten);
}

static void overwritten_after_the_begin(void)
{
	struct ring_losses losses = {};
	struct ring_pass pass;
	struct record copy;

	empty();
	put(COUNT);
	ring_begin(&pass, &ring, 0, &losses);
	CHECK(ring_next(&pass, &copy, &losses) && copy.position == 0, "the first");
	put(4);
	/* 1, 2 and 3 are gone; what came after the begin waits for the next pass. */
	CHECK(ring_next(&pass, &copy, &losses) && copy.position == 4, "%llu", copy.position);
	CHECK(losses.overwritten == 3, "%llu", losses.overwritten);
	while (ring_next(&pass, &copy, &losses))
		;
	CHECK(pass.position == COUNT, "%llu", pass.position);
}

static void one_in_the_making(void)
{
	struct ring_losses losses = {};
	__u64 position = 0;
	struct record *open;

	empty();
	put(2);
	open = begin_record();
	CHECK(read_on(&position, &losses) == 2 && position == 2, "up to it");
	CHECK(!read_on(&position, &losses) && position == 2, "it still is");
	end_record(open);
	put(1);
	CHECK(read_on(&position, &losses) == 2 && position == 4, "it is whole");
	CHECK(!losses.overwritten && !losses.torn, "nothing is lost: %llu %llu", losses.overwritten, losses.torn);
}

static void one_in_the_making_over_another(void)
{
	struct ring_losses losses = {};
	__u64 position = 0;
	struct record *open;

	empty();
	put(COUNT);
	open = begin_record();
	CHECK(!losses.overwritten, "not yet");
	CHECK(read_on(&position, &losses) == COUNT - 1 && position == COUNT,
	      "the first one is gone, the rest is there");
	CHECK(losses.overwritten == 1, "%llu", losses.overwritten);
	end_record(open);
	CHECK(read_on(&position, &losses) == 1, "and then it is there too");
	CHECK(losses.overwritten == 1 && !losses.torn, "%llu %llu", losses.overwritten, losses.torn);
}

/* A ring of one long record, whose sequence goes to and fro while it is copied. */
static char long_record[1 << 20] __attribute__((aligned(8)));
static bool stop;

static void *change_sequence(void *unused)
{
	__u64 *sequence = (void *)long_record;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		__atomic_exchange_n(sequence, 0, __ATOMIC_SEQ_CST);
		__atomic_exchange_n(sequence, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void torn(void)
{
	static const __u64 one = 1;
	const struct ring alone = {.records = long_record, .written = &one, .count = 1, .bytes = sizeof(long_record)};
	char *copy = malloc(sizeof(long_record));
	time_t deadline = time(NULL) + PATIENCE_S;
	struct ring_losses losses = {};
	struct ring_pass pass;
	pthread_t writer;
	bool got = true;

	stop = false;
	pthread_create(&writer, NULL, change_sequence, NULL);
	while (!losses.torn && time(NULL) < deadline) {
		ring_begin(&pass, &alone, 0, &losses);
		got = ring_next(&pass, copy, &losses);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(writer, NULL);
	CHECK(losses.torn == 1 && !losses.overwritten, "%llu %llu", losses.torn, losses.overwritten);
	CHECK(!got && pass.position == 1, "it is passed over");
	free(copy);
}

#define FLOOD 400000

static void *flood(void *unused)
{
	put(FLOOD);
	return NULL;
}

/* Nothing is read twice or mixed, and what is not read is counted. */
static void against_a_writer_that_never_waits(void)
{
	struct ring_losses losses = {};
	__u64 position = 0, count = 0;
	pthread_t writer;

	empty();
	pthread_create(&writer, NULL, flood, NULL);
	while (ring_written(&ring) < FLOOD)
		count += read_on(&position, &losses);
	pthread_join(writer, NULL);
	count += read_on(&position, &losses);
	CHECK(position == FLOOD, "%llu", position);
	CHECK(count + losses.overwritten + losses.torn == FLOOD, "%llu read, %llu overwritten, %llu torn", count,
	      losses.overwritten, losses.torn);
}

static void a_reader_that_starts_again(void)
{
	struct ring_losses losses = {};
	__u64 position = 0;

	empty();
	put(5);
	CHECK(read_on(&position, &losses) == 5, "all");
	position = 0;
	CHECK(read_on(&position, &losses) == 5, "all, from the start");
	put(COUNT);
	position = 0;
	CHECK(read_on(&position, &losses) == COUNT && losses.overwritten == 5, "what is left: %llu",
	      losses.overwritten);
}

static void backward(void)
{
	struct ring_pass pass;
	struct record copy, *open;

	empty();
	ring_begin_back(&pass, &ring);
	CHECK(ring_previous(&pass, &copy) == RING_END && !ring_has_lost(&pass), "nothing is there");
	put(3);
	ring_begin_back(&pass, &ring);
	for (__u64 want = 3; want; want--)
		CHECK(ring_previous(&pass, &copy) == RING_COPIED && copy.position == want - 1 &&
			      pass.position == want - 1,
		      "%llu", copy.position);
	CHECK(ring_previous(&pass, &copy) == RING_END && !ring_has_lost(&pass), "the first");
	put(COUNT);
	open = begin_record();
	ring_begin_back(&pass, &ring);
	CHECK(ring_previous(&pass, &copy) == RING_PENDING, "in the making");
	put(2);
	for (int i = 0; i < COUNT - 3; i++)
		CHECK(ring_previous(&pass, &copy) == RING_COPIED, "%d", i);
	CHECK(ring_previous(&pass, &copy) == RING_OVERWRITTEN && ring_has_lost(&pass), "those are gone meanwhile");
	end_record(open);
}

static struct ring_aside aside;
static const struct ring kept = {
	.records = records,
	.written = &written,
	.count = COUNT,
	.bytes = sizeof(struct record),
	.sequence = offsetof(struct record, sequence),
	.aside = &aside,
};

/* Reads all, in order; how many. */
static __u64 read_kept(__u64 *position, struct ring_losses *losses)
{
	struct ring_pass pass;
	struct record copy;
	__u64 count = 0, least = 0;

	ring_begin(&pass, &kept, *position, losses);
	while (ring_next(&pass, &copy, losses)) {
		CHECK(copy.position == pass.position - 1 && copy.position >= least, "%llu", copy.position);
		CHECK(copy.words[0] == copy.position && copy.words[WORDS - 1] == copy.position, "a mix of two records");
		least = copy.position + 1;
		count++;
	}
	*position = pass.position;
	return count;
}

static void put_aside(void)
{
	struct ring_losses losses = {};
	__u64 position = 0;

	empty();
	put(3);
	CHECK(read_kept(&position, &losses) == 3, "before");
	/* More than the ring holds, and what came after the last time is read from the ring. */
	for (int round = 0; round < 100; round++) {
		put(COUNT - 1);
		ring_put_aside(&kept, &position, &losses);
	}
	CHECK(position == 3 && ring_has_aside(&aside), "%llu", position);
	put(2);
	CHECK(read_kept(&position, &losses) == 100 * (COUNT - 1) + 2, "%llu", position);
	CHECK(position == written && !ring_has_aside(&aside) && !aside.room, "%llu", position);
	CHECK(!losses.overwritten && !losses.torn && !ring_aside_was_full(), "%llu", losses.overwritten);
	/* Nothing to put aside, and what was lost before is counted once. */
	ring_put_aside(&kept, &position, &losses);
	put(3 * COUNT);
	ring_put_aside(&kept, &position, &losses);
	put(3 * COUNT);
	CHECK(read_kept(&position, &losses) == 2 * COUNT, "%llu", position);
	CHECK(losses.overwritten == 4 * COUNT && position == written, "%llu", losses.overwritten);
}

static void put_aside_by_parts(void)
{
	struct ring_losses losses = {};
	struct ring_pass pass;
	struct record copy;
	__u64 position = 0;

	empty();
	put(COUNT);
	ring_put_aside(&kept, &position, &losses);
	put(COUNT);
	/* As a reader whose batch is full. */
	ring_begin(&pass, &kept, position, &losses);
	for (__u64 want = 0; want < 3; want++)
		CHECK(ring_next(&pass, &copy, &losses) && copy.position == want, "%llu", copy.position);
	position = pass.position;
	CHECK(read_kept(&position, &losses) == 2 * COUNT - 3 && position == written, "%llu", position);
	CHECK(!losses.overwritten, "%llu", losses.overwritten);
}

static void no_memory_to_put_aside(void)
{
	const __u64 most = RING_ASIDE_BYTES / sizeof(struct record);
	struct ring_losses losses = {};
	__u64 position = 0, count = 0, got;

	empty();
	for (; count < 2 * most; count += COUNT) {
		put(COUNT);
		ring_put_aside(&kept, &position, &losses);
	}
	CHECK(ring_aside_was_full() && !ring_aside_was_full(), "not full");
	got = read_kept(&position, &losses);
	/* Each is read, or counted as lost; nearly all of the memory is used. */
	CHECK(got + losses.overwritten == count && position == written, "%llu of %llu", got, count);
	CHECK(got <= most + COUNT && got > most / 10 * 9, "%llu of %llu", got, most);
	/* All of it is given back. */
	put(COUNT);
	ring_put_aside(&kept, &position, &losses);
	CHECK(read_kept(&position, &losses) == COUNT && !ring_aside_was_full(), "%llu", position);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(one_after_the_other),
		TEST(the_oldest_are_lost),
		TEST(overwritten_after_the_begin),
		TEST(one_in_the_making),
		TEST(one_in_the_making_over_another),
		TEST(torn),
		TEST(against_a_writer_that_never_waits),
		TEST(a_reader_that_starts_again),
		TEST(backward),
		TEST(put_aside),
		TEST(put_aside_by_parts),
		TEST(no_memory_to_put_aside),
	};

	return RUN_TESTS(tests);
}
