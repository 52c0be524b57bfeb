// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <bpf/libbpf.h>

#include "base/small_file.h"
#include "base/clock.h"
#include "bpf/clocksource.h"
#include "base/histogram_blob.h"
#include "lockline.skel.h"
#include "cli/message.h"
#include "probes/observer.h"
#include "session/self_check.h"
#include "recording/recording_rows.h"

/* After a switch: code was patched on every CPU, and caches are cold. */
#define SETTLE_NS 200000000ull
/* With fewer pairs no order of them is rare enough to be significant: 2 / 2^5 is above 5 %. */
#define PAIRS_WANTED 6

enum phase { SWITCHING, SETTLING, SLICE, OVER };

/* All that is counted, at one moment. */
struct reading {
	__u64 at_ns;
	__u64 waits[HISTOGRAM_BUCKETS];
	__u64 wait_ns;
	struct observed observed;
	__s64 switches;
};

struct self_check {
	const struct options *options;
	struct probes *probes;
	struct recording *recording;
	struct observer *observer;
	enum phase phase;
	__u64 until_ns;
	int switched;      /* how many of the probes the present switch has been through */
	bool probes_waits; /* the deeper probes are those of the waits themselves */
	bool deeper;       /* as it is, or is becoming */
	bool first_deeper; /* of the present pair */
	__s64 slice;
	__u32 deeper_mask[(PROBE_PROGRAMS + 31) / 32];
	struct reading begin;
};

/* Probes that count the waits: on all the time, if there are deeper ones. */
static bool counts_waits(enum signal signal)
{
	return signal == SIGNAL_LOCK_WAITS || signal == SIGNAL_SPINLOCK_FIRST_WAITER ||
	       signal == SIGNAL_RWLOCK_INTERRUPT || signal == SIGNAL_RWSEM_SPINNING || signal == SIGNAL_PERCPU_WRITERS;
}

static bool is_deeper(const struct self_check *check, int probe)
{
	return check->deeper_mask[probe / 32] >> (probe % 32) & 1;
}

static void find_deeper(struct self_check *check)
{
	const struct probes *probes = check->probes;

	check->probes_waits = true;
	for (int i = 0; i < probes->attached_count; i++) {
		const struct choice *choice = &probes->attached[i].choice;

		check->probes_waits &= !probes->attached[i].link || counts_waits(choice->signal) ||
				       choice->signal == SIGNAL_PROCESS_FOLLOWING;
	}
	for (int i = 0; i < probes->attached_count; i++) {
		enum signal signal = probes->attached[i].choice.signal;
		bool deeper = probes->attached[i].link && signal != SIGNAL_PROCESS_FOLLOWING &&
			      counts_waits(signal) == check->probes_waits;

		check->deeper_mask[i / 32] |= (__u32)deeper << (i % 32);
	}
}

int self_check_open(struct self_check **out, const struct options *options, struct probes *probes,
		    struct recording *recording)
{
	struct self_check *check;
	int err;

	*out = NULL;
	if (!options->self_check_ns)
		return 0;
	check = calloc(1, sizeof(*check));
	if (!check)
		return -ENOMEM;
	*check = (struct self_check){.options = options, .probes = probes, .recording = recording, .deeper = true};
	find_deeper(check);
	err = observer_start(&check->observer);
	if (err) {
		message("--self-check: cannot start the observer's threads: %s", strerror(-err));
		free(check);
		return err;
	}
	*out = check;
	return 0;
}

void self_check_close(struct self_check *check)
{
	if (!check)
		return;
	if (!check->options->quiet && check->slice / 2 < PAIRS_WANTED)
		message("--self-check: only %lld pairs of slices were recorded, and it needs %d: record for longer, or "
			"with shorter slices",
			check->slice / 2, PAIRS_WANTED);
	observer_stop(check->observer);
	free(check);
}

/* The signals that are switched, each once. */
static void deeper_text(const struct self_check *check, char *text, size_t size)
{
	text[0] = '\0';
	for (int i = 0; i < check->probes->attached_count; i++) {
		enum signal signal = check->probes->attached[i].choice.signal;
		size_t used = strlen(text);
		bool told = false;

		for (int before = 0; before < i; before++)
			told |= is_deeper(check, before) && signal == check->probes->attached[before].choice.signal;
		if (is_deeper(check, i) && !told)
			snprintf(text + used, size - used, "%s%s", used ? "; " : "", signal_name(signal));
	}
}

static int put_text(struct self_check *check, const char *name, const char *text)
{
	return recording_put_text(check->recording, name, text);
}

static int put_number(struct self_check *check, const char *name, __u64 number)
{
	return recording_put_number(check->recording, name, number);
}

/* Chance decides which of a pair comes first, so that no periodic load keeps step with the slices. */
static void choose(struct self_check *check)
{
	unsigned char random = 0;

	if (check->slice % 2 == 0) {
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = now_ns() >> 4;
		check->first_deeper = random & 1;
	}
	check->deeper = check->first_deeper == (check->slice % 2 == 0);
	check->phase = SWITCHING;
	check->switched = 0;
}

int self_check_begin(struct self_check *check)
{
	const struct options *options = check ? check->options : NULL;
	char deeper[1024], observer[96];
	__u64 pairs;
	int err;

	if (!check)
		return 0;
	deeper_text(check, deeper, sizeof(deeper));
	snprintf(observer, sizeof(observer), "%u threads, %s, every %llu us", observer_threads(check->observer),
		 observer_is_real_time(check->observer) ? "SCHED_FIFO" : "SCHED_OTHER", OBSERVER_PERIOD_NS / 1000);
	err = put_text(check, "self_check_deeper", deeper);
	err = err ?: put_text(check, "self_check_observer", observer);
	err = err ?: put_text(check, "self_check_waits", check->probes_waits ? "with" : "always");
	err = err ?: put_number(check, "self_check_slice_ns", options->self_check_ns);
	err = err ?: put_number(check, "self_check_settle_ns", SETTLE_NS);
	pairs = options->duration_ns / (2 * (options->self_check_ns + SETTLE_NS));
	if (!options->quiet)
		message("--self-check: with and without: %s", deeper);
	if (options->duration_ns && pairs < PAIRS_WANTED)
		message("--self-check: -d leaves time for only %llu pairs of slices, and it needs %d: use a longer -d, "
			"or shorter slices with --self-check=TIME",
			pairs, PAIRS_WANTED);
	choose(check);
	return err;
}

static __s64 context_switches(void)
{
	char switches[32];

	return value_of_key("/proc/stat", "ctxt", switches, sizeof(switches)) ? -1 : strtoll(switches, NULL, 10);
}

static void read_waits(const struct self_check *check, struct reading *reading)
{
	const struct maps *maps = &check->probes->maps;

	if (check->probes_waits)
		return;
	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		for (__u32 i = 0; i < maps->sizing->rows; i++) {
			const struct wait_row *row = maps_row(maps, cpu, i);

			if (!row->waits)
				continue;
			reading->wait_ns += row->wait_ns;
			for (int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
				reading->waits[bucket] += row->histogram[bucket];
		}
	}
}

static void take_reading(struct self_check *check, struct reading *reading)
{
	*reading = (struct reading){.switches = context_switches()};
	read_waits(check, reading);
	observer_read(check->observer, &reading->observed);
	reading->at_ns = now_ns();
}

/* Counters of a row wrap at 2^32. */
static __u64 gained(__u64 after, __u64 before)
{
	return after >= before ? after - before : after + (1ull << 32) - before;
}

static int end_slice(struct self_check *check)
{
	struct histogram_blob waits = {.size = 0}, wakeups = {.size = 0};
	const struct reading *begin = &check->begin;
	__u64 max_late_ns = observer_take_max(check->observer), count = 0;
	struct reading end;
	__s64 slice = check->slice++;

	take_reading(check, &end);
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		__u64 ended = gained(end.waits[i], begin->waits[i]);

		count += ended;
		histogram_put(&waits, i, ended);
		histogram_put(&wakeups, i, end.observed.histogram[i] - begin->observed.histogram[i]);
	}
	return recording_put(
		check->recording, self_check, .slice = slice, .pair = slice / 2, .begin_ns = begin->at_ns,
		.end_ns = end.at_ns, .deeper = check->deeper, .waits = count, .wait_ns = end.wait_ns - begin->wait_ns,
		.wait_histogram = {waits.bytes, waits.size}, .wakeups = end.observed.wakeups - begin->observed.wakeups,
		.max_late_ns = max_late_ns, .wakeup_histogram = {wakeups.bytes, wakeups.size},
		.switches = end.switches < 0 || begin->switches < 0 ? (__s64)-1 : end.switches - begin->switches);
}

/* Silence comes before detaching and ends after attaching, which take seconds where functions are probed. */
static void set_silent(struct self_check *check, bool silent)
{
	const struct maps *maps = &check->probes->maps;

	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		__u32 *flags = &maps_cpu(maps, cpu)->flags;

		__atomic_store_n(flags, silent ? *flags | STATE_SHALLOW : *flags & ~STATE_SHALLOW, __ATOMIC_RELAXED);
	}
	if (check->probes_waits && silent)
		probes_stop(check->probes, maps->sizing->cpus);
	else if (check->probes_waits)
		probes_start(check->probes, check->options, maps->sizing->cpus);
}

static void clear(const struct bpf_map *map)
{
	struct mapped_array array = {};

	if (maps_map(&array, map))
		return;
	memset(array.data, 0, array.bytes);
	maps_unmap(&array);
}

/* What was in flight when the probes went away has ended unseen.  None of them runs now. */
static void forget_in_flight(struct self_check *check)
{
	const struct maps *maps = &check->probes->maps;
	struct mapped_array clocks = {};

	clear(check->probes->bpf->maps.futex_slots);
	clear(check->probes->bpf->maps.inactive_slots);
	if (!maps_map(&clocks, check->probes->bpf->maps.clock_states)) {
		for (size_t i = 0; i < clocks.bytes / sizeof(struct clock_state); i++)
			((struct clock_state *)clocks.data)[i].begin = 0;
		maps_unmap(&clocks);
	}
	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		if (maps->release_states.data)
			maps_release(maps, cpu)->hold_depth = 0;
		if (check->probes_waits)
			maps_cpu(maps, cpu)->spin_depth = 0;
	}
	if (check->probes_waits)
		memset(maps->sleepers.data, 0, maps->sleepers.bytes);
}

/*
 * A probe cannot be attached again.  Some of the deeper ones alone would make things up: they are detached, and stay
 * silent (STATE_SHALLOW), as in a slice without them.  Without the probes of the waits there is nothing to record.
 */
static int give_up(struct self_check *check, const struct attached *failed, int err)
{
	struct probes *probes = check->probes;
	__s64 lost = 0;

	message("--self-check: cannot attach %s again: %s; %s", bpf_program__name(failed->choice.program),
		strerror(-err),
		check->probes_waits
			? "the recording ends here"
			: "the check ends here, and the recording goes on without the probes that it switches");
	for (int i = probes->attached_count - 1; i >= 0; i--) {
		if (!is_deeper(check, i))
			continue;
		bpf_link__destroy(probes->attached[i].link);
		probes->attached[i].link = NULL;
		lost++;
	}
	check->phase = OVER;
	if (check->probes_waits)
		return err;
	err = put_text(check, "self_check_ended", strerror(-err));
	return err
		       ?: recording_put(check->recording, loss, .name = "self_check_detached", .count = lost,
					.meaning = "probes that --self-check could not attach again: from then on the "
						   "waits alone were "
						   "recorded",
					.severity = "loss");
}

/* The next probe: ends and unlocks are attached first and detached last.  1: all are as they should be. */
static int switch_next(struct self_check *check)
{
	struct probes *probes = check->probes;
	bool first = !check->switched;

	for (; check->switched < probes->attached_count; check->switched++) {
		int i = check->deeper ? check->switched : probes->attached_count - 1 - check->switched, err;
		struct attached *attached = &probes->attached[i];

		if (!is_deeper(check, i) || !attached->link != check->deeper)
			continue;
		if (check->deeper && first)
			forget_in_flight(check);
		else if (first)
			set_silent(check, true);
		check->switched++;
		if (!check->deeper) {
			probes_read_misses(probes);
			bpf_link__destroy(attached->link);
			attached->link = NULL;
			return 0;
		}
		err = probes_attach_one(attached);
		if (!err)
			return 0;
		return give_up(check, attached, err);
	}
	if (check->deeper)
		set_silent(check, false);
	return 1;
}

int self_check_tick(struct self_check *check, __u64 *next)
{
	int done, err = 0;

	*next = ~0ull;
	if (!check || check->phase == OVER)
		return 0;
	*next = 0;
	if (check->phase == SWITCHING) {
		done = switch_next(check);
		if (done < 0)
			return done;
		if (done) {
			check->phase = SETTLING;
			check->until_ns = now_ns() + SETTLE_NS;
		}
	} else if (now_ns() < check->until_ns) {
		*next = check->until_ns;
	} else if (check->phase == SETTLING) {
		take_reading(check, &check->begin);
		observer_take_max(check->observer);
		check->phase = SLICE;
		check->until_ns = check->begin.at_ns + check->options->self_check_ns;
	} else {
		err = end_slice(check);
		choose(check);
	}
	return err;
}
