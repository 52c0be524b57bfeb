// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of futexes: machines of one to 512 CPUs that would take all they may, of old futexes or of ever new ones, take
 * about the rate, and one whose waits are on a few of its CPUs does so too.  And what one row's samples stand for: each
 * place has the part of the waiting that it had, whatever else ends at the same time.
 */
#include <stdlib.h>

#include "bpf/futex.h"
#include "futex/futex_sampling.h"
#include "tap.h"

#define READ_NS  50000000ull
#define A_SECOND (1000000000ull / READ_NS)
#define SECONDS  30

/* So many CPUs, of which the first have so many waits, and wakes, between two readings; new: futexes are. */
struct machine {
	__u32 cpus, busy, waits;
	bool new;
	__u32 asked;    /* samples a second; 0: by their cost */
	__u64 stack_ns; /* CPU time that one takes; 0: more than there is for any */
	__u32 waiting;  /* of 1,000 that there is room for */
};

static __u32 taken_of(__u32 tokens, const struct machine *of)
{
	if (!of->new)
		tokens = tokens > FUTEX_RESERVED ? tokens - FUTEX_RESERVED : 0;
	return tokens < of->waits ? tokens : of->waits;
}

static __u64 samples_of(const struct machine *of, int from_second)
{
	struct futex_sampling sampling = {.a_second = of->asked};
	struct naming_pace pace = {.waiting = of->waiting, .most_waiting = 1000};
	__u64 now_ns = 1, waits = 0, wakes = 0, all = 0;

	for (__u64 read = 0; read < SECONDS * A_SECOND; read++) {
		pace.cpu_ns += (waits + wakes) * (of->stack_ns ?: 1000000);
		futex_sampling_read(&sampling, of->cpus, now_ns, waits, wakes, &pace);
		now_ns += READ_NS;
		waits = wakes = 0;
		for (__u32 cpu = 0; cpu < of->busy && cpu < of->cpus; cpu++) {
			waits += taken_of(futex_sampling_waits(&sampling, cpu), of);
			wakes += taken_of(futex_sampling_wakes(&sampling, cpu), of);
		}
		if (read >= from_second * A_SECOND)
			all += waits + wakes;
	}
	return all;
}

static __u64 samples(__u32 cpus, __u32 busy, __u32 waits, bool new, int from_second)
{
	const struct machine of = {.cpus = cpus, .busy = busy, .waits = waits, .new = new};

	return samples_of(&of, from_second);
}

/* The dearer a stack, the fewer there are: between two bounds they take 4 ms of a second or so. */
static void test_cost(void)
{
	static const struct {
		__u64 stack_ns;
		__u32 asked, waiting, least, most;
	} cases[] = {
		{1000, 0, 0, 190, 280},      /* no more than this, however little they cost */
		{20000, 0, 0, 120, 200},     /* 100 of 40 us, and what is left of the begin */
		{50000, 0, 0, 65, 130},      /* 57 of 70 us, likewise */
		{5000000, 0, 0, 40, 80},     /* no fewer than this */
		{5000000, 300, 0, 200, 400}, /* a number that was asked for, whatever it costs */
		{1000, 30, 0, 15, 45},       {20000, 300, 600, 60, 220}, /* there is less and less room for them */
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct machine of = {
			.cpus = 8,
			.busy = 8,
			.waits = 1000,
			.asked = cases[i].asked,
			.stack_ns = cases[i].stack_ns,
			.waiting = cases[i].waiting,
		};
		const __u64 got = samples_of(&of, 10) / (SECONDS - 10);

		CHECK(got >= cases[i].least && got <= cases[i].most,
		      "%llu ns a stack, asked %u, %u wait: %llu a second, wanted %u to %u",
		      (unsigned long long)cases[i].stack_ns, cases[i].asked, cases[i].waiting, (unsigned long long)got,
		      cases[i].least, cases[i].most);
	}
}

/* Not one, however long: it would be lost. */
static void test_none_without_room(void)
{
	for (int new = 0; new < 2; new ++) {
		const struct machine of = {
			.cpus = 8, .busy = 8, .waits = 1000, .new = new, .asked = 300, .waiting = 900};

		/* The first look is before there are any. */
		CHECK(!samples_of(&of, 1), "%s futexes: %llu", new ? "new" : "old",
		      (unsigned long long)samples_of(&of, 1));
	}
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
	const struct naming_pace pace = {};
	struct futex_sampling sampling = {};
	__u64 taken = 0;

	futex_sampling_read(&sampling, 2, 1, 0, 0, &pace);
	for (__u32 cpu = 0; cpu < 2; cpu++)
		taken += futex_sampling_waits(&sampling, cpu) + futex_sampling_wakes(&sampling, cpu) -
			 2 * FUTEX_RESERVED;
	CHECK(taken >= 24, "at first all that the ring has room for: %llu", (unsigned long long)taken);
}

#define PLACES 3
#define ROUNDS 1000000

struct wait {
	int place;
	__u64 ns;
};

/* Rounds of the same waits, of which one turn of the sampling has so many (and a part); one sample for each turn. */
static void sample_places(const struct wait *waits, int count, double turn, __u64 *had, __u64 *told)
{
	struct futex_state state = {};
	struct futex_row row = {};
	double next = 0;
	__u64 random = 1;
	bool token = true;

	for (__u64 i = 0; i < (__u64)ROUNDS * count; i++) {
		const struct wait *wait = &waits[i % count];

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		/* No turn is in step with the waits. */
		if (i >= next) {
			token = true;
			next += turn * (512 + (random >> 40 & 1023)) / 1024;
		}
		had[wait->place] += wait->ns;
		row.span_begun_ns += wait->ns;
		if (!futex_wait_due(&row))
			continue;
		if (!token) {
			futex_wait_missed(&state, &row, random >> 8);
			continue;
		}
		token = false;
		row.wait_samples += row.wait_samples < FUTEX_FEW_SAMPLES;
		told[wait->place] += futex_wait_sampled(&state, &row, random >> 8);
	}
}

#define OFTEN  60
#define SELDOM 25

/*
 * Threads that wait all the time, most of them shortly and some for long, with the tokens of 7 s on one CPU: whoever
 * waits often comes first each time that there are tokens.
 */
static void test_turns(void)
{
	static struct futex_row rows[OFTEN + SELDOM];
	const struct naming_pace pace = {};
	struct futex_sampling sampling = {.a_second = 40};
	struct futex_state state = {};
	__u64 next[OFTEN + SELDOM], samples[OFTEN + SELDOM] = {}, random = 1, taken = 0, in[2] = {};
	int without = 0;

	for (int i = 0; i < OFTEN + SELDOM; i++)
		next[i] = (i + 1) * 100000;
	for (__u64 now = 1, read = 0; now < 7000000000ull; now += 50000) {
		if (now >= read) {
			const __u32 got = sampling.last_ns ? futex_sampling_waits(&sampling, 0) : 0;

			state.few_level = futex_sampling_level(state.few_level, got, state.wait_tokens);
			futex_sampling_read(&sampling, 1, now, taken, taken, &pace);
			state.wait_tokens = futex_sampling_waits(&sampling, 0);
			read = now + READ_NS;
			taken = 0;
		}
		for (int i = 0; i < OFTEN + SELDOM; i++) {
			const __u64 wait_ns = i < OFTEN ? 1000000 : 15000000;
			struct futex_row *row = &rows[i];

			if (now < next[i])
				continue;
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			next[i] = now + wait_ns / 2 + (random >> 20) % wait_ns;
			row->span_begun_ns += wait_ns;
			if (!futex_wait_due(row))
				continue;
			if (futex_wait_yields(&state, row)) {
				futex_wait_passed(&state, row, random >> 8);
			} else if (state.wait_tokens <= (row->wait_samples < FUTEX_FEW_SAMPLES ? 0 : FUTEX_RESERVED)) {
				futex_wait_missed(&state, row, random >> 8);
			} else {
				state.wait_tokens--;
				row->wait_samples += row->wait_samples < FUTEX_FEW_SAMPLES;
				futex_wait_sampled(&state, row, random >> 8);
				samples[i]++;
				/* And as many wakes. */
				taken++;
			}
		}
	}
	for (int i = 0; i < OFTEN + SELDOM; i++) {
		in[i >= OFTEN] += samples[i];
		without += !samples[i];
	}
	CHECK(!without, "%d threads have no sample", without);
	CHECK(in[1] * OFTEN * 2 > in[0] * SELDOM, "%llu samples of %d that wait often, %llu of %d that wait long",
	      in[0], OFTEN, in[1], SELDOM);
}

#define WORDS      260
#define BUSY_WORDS 8
#define MINUTE_S   40

/* What samples became of the words of a program. */
struct shared_out {
	__u64 waits, wakes, least, of_busy;
};

/*
 * Threads that wait at a word of their own each, for 20 ms of 80, and a few words at which one waits all the time; each
 * wait ends by a wake that may be sampled too.
 */
static struct shared_out share_out(__u32 cpus, __u64 seed)
{
	static struct futex_row rows[WORDS];
	struct futex_state states[8] = {};
	const struct naming_pace pace = {};
	struct futex_sampling sampling = {.a_second = 60};
	__u64 next[WORDS], samples[WORDS] = {}, random = seed, waits = 0, wakes = 0;
	struct shared_out out = {.least = ~0ull};
	__u32 woken[WORDS] = {};

	for (int i = 0; i < WORDS; i++) {
		rows[i] = (struct futex_row){};
		next[i] = (i + 1) * 100000;
	}
	for (__u64 now = 1, read = 0; now < MINUTE_S * 1000000000ull; now += 50000) {
		if (now >= read) {
			for (__u32 cpu = 0; cpu < cpus && sampling.last_ns; cpu++)
				states[cpu].few_level = futex_sampling_level(states[cpu].few_level,
									     futex_sampling_waits(&sampling, cpu),
									     states[cpu].wait_tokens);
			futex_sampling_read(&sampling, cpus, now, waits, wakes, &pace);
			for (__u32 cpu = 0; cpu < cpus; cpu++) {
				states[cpu].wait_tokens = futex_sampling_waits(&sampling, cpu);
				states[cpu].wake_tokens = futex_sampling_wakes(&sampling, cpu);
			}
			out.waits += waits;
			out.wakes += wakes;
			read = now + READ_NS;
			waits = wakes = 0;
		}
		for (int i = 0; i < WORDS; i++) {
			__u64 wait_ns = i < BUSY_WORDS ? 2000000 : 20000000, pause_ns = i < BUSY_WORDS ? 0 : 60000000;
			struct futex_row *row = &rows[i];
			struct futex_state *state;

			if (now < next[i])
				continue;
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			wait_ns = wait_ns / 2 + (random >> 20) % wait_ns;
			next[i] = now + wait_ns + pause_ns / 2 + (pause_ns ? (random >> 10) % pause_ns : 0);
			state = &states[(random >> 40) % cpus];
			if (state->wake_tokens > (woken[i] < FUTEX_FEW_WAKES ? 0 : FUTEX_RESERVED)) {
				state->wake_tokens--;
				woken[i]++;
				wakes++;
			}
			row->span_begun_ns += wait_ns;
			if (!futex_wait_due(row))
				continue;
			if (futex_wait_yields(state, row)) {
				futex_wait_passed(state, row, random >> 8);
			} else if (state->wait_tokens <= (row->wait_samples < FUTEX_FEW_SAMPLES ? 0 : FUTEX_RESERVED)) {
				futex_wait_missed(state, row, random >> 8);
			} else {
				state->wait_tokens--;
				row->wait_samples += row->wait_samples < FUTEX_FEW_SAMPLES;
				futex_wait_sampled(state, row, random >> 8);
				samples[i]++;
				waits++;
			}
		}
	}
	for (int i = 0; i < WORDS; i++) {
		out.least = samples[i] < out.least ? samples[i] : out.least;
		out.of_busy += i < BUSY_WORDS ? samples[i] : 0;
	}
	return out;
}

/* 60 samples a second for 260 words: wakes do not take those of waits, and no span is so long that none is due. */
static void test_many_words(void)
{
	for (__u64 seed = 1; seed <= 6; seed++) {
		const __u32 cpus = seed % 2 ? 2 : 8;
		const struct shared_out out = share_out(cpus, seed * 0x9e3779b97f4a7c15ull);

		CHECK(out.waits >= 30 * MINUTE_S, "%u CPUs: %llu waits, %llu wakes in %d s", cpus,
		      (unsigned long long)out.waits, (unsigned long long)out.wakes, MINUTE_S);
		CHECK(out.least >= 3, "%u CPUs: a word has %llu samples", cpus, (unsigned long long)out.least);
		CHECK(out.of_busy >= 5 * BUSY_WORDS, "%u CPUs: the busiest have %llu samples", cpus,
		      (unsigned long long)out.of_busy);
	}
}

static void test_places(void)
{
	/* Six that are let in together, and one; a long wait among short ones; a place with hardly any. */
	static const struct {
		struct wait waits[8];
		int count;
	} loads[] = {
		{{{0, 500}, {0, 500}, {0, 500}, {0, 500}, {0, 500}, {0, 500}, {1, 1500}}, 7},
		{{{0, 100}, {0, 100}, {0, 100}, {0, 100}, {0, 100}, {1, 10000}, {0, 100}, {2, 3000}}, 8},
		{{{0, 1000}, {0, 1000}, {0, 1000}, {1, 1000}, {1, 100}, {2, 300}}, 6},
	};
	static const double turns[] = {1.37, 7.7, 40.3, 333.3};

	for (unsigned int load = 0; load < sizeof(loads) / sizeof(*loads); load++) {
		for (unsigned int turn = 0; turn < sizeof(turns) / sizeof(*turns); turn++) {
			__u64 had[PLACES] = {}, told[PLACES] = {};

			sample_places(loads[load].waits, loads[load].count, turns[turn], had, told);
			for (int place = 0; place < PLACES; place++)
				CHECK(told[place] * 10 >= had[place] * 9 && told[place] * 10 <= had[place] * 11,
				      "load %u, turns of %.1f, place %d: %llu of %llu", load, turns[turn], place,
				      (unsigned long long)told[place], (unsigned long long)had[place]);
		}
	}
}

/* A place of goroutines with waits that were not told yet. */
static void test_sites(void)
{
	const __u64 begun = 1000000000ull, idle = GO_SITE_IDLE * GO_SITE_NS;
	struct go_site site = {.key = 1, .next_ns = begun + GO_SITE_NS, .count = 0};

	CHECK(go_site_is_free(&site, begun), "all is told");
	site.count = 3;
	CHECK(!go_site_is_free(&site, begun), "its next event is to come");
	CHECK(!go_site_is_free(&site, site.next_ns + idle), "somebody may come again");
	CHECK(go_site_is_free(&site, site.next_ns + idle + 1), "nobody came for a second");
	/* A wait found no token. */
	site.next_ns += idle;
	CHECK(!go_site_is_free(&site, site.next_ns + 1), "somebody did");
}

static const struct test tests[] = {
	TEST(test_rate),
	TEST(test_few_busy),
	TEST(test_cost),
	TEST(test_none_without_room),
	TEST(test_little_is_taken_whole),
	TEST(test_first_second),
	TEST(test_places),
	TEST(test_turns),
	TEST(test_many_words),
	TEST(test_sites),
};

int main(void)
{
	return RUN_TESTS(tests);
}
