// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/ring.h"
#include "base/clock.h"
#include "lockline.skel.h"
#include "probes/maps.h"
#include "watch/watch_pairs.h"
#include "watch/watch_queue.h"
#include "watch/watch_schedule.h"
#include "watch/watch_windows.h"

#define IDLE_NS 20000000ull
/* A record that is stamped already may become visible this much later. */
#define SETTLE_NS 1000000ull
/* Of a line that has more places than can be watched at once, this long without a limit of cost. */
#define ROTATE_NS       50000000ull
#define FIRST_WINDOW_MS 1000
#define TRIES           20
#define TRY_AGAIN_NS    5000000

struct line {
	struct watch_place place;
	struct watch_pace paces[2]; /* of plain and of typed windows */
	bool dropped;
	int err; /* why it could not be watched the last time, or 0 */
	struct watch_schedule turns;
};

struct watch_windows {
	struct mapped_array records, states, target;
	struct watch_events events;
	__u32 cpus;
	int slots;
	__u64 *read;  /* per CPU: position in its ring */
	__u64 others; /* hits by other processes before the window */
	struct watch_budget budget;
	struct watch_cost cost;
	pthread_t thread;
	bool running;
	bool begun; /* a window, or it could not be */
	bool ending;
	bool cpus_changed; /* some came or went */
	int wake;          /* eventfd */
	pthread_mutex_t lock;
	struct line lines[WATCH_LINES]; /* under lock, as the rest */
	__u32 line_count;
	struct watch_queue queue;
	__u64 own_ns;
	int err;
};

int watch_windows_open(struct watch_windows **out, struct lockline_bpf *bpf, __u32 cpus, const struct id_list *wanted)
{
	struct watch_windows *windows = calloc(1, sizeof(*windows));
	const struct watch_programs programs = {
		.hit = bpf_program__fd(bpf->progs.watch_hit),
		.write = bpf_program__fd(bpf->progs.watch_write),
	};
	int err;

	if (!windows)
		return -ENOMEM;
	windows->events.keeper = -1;
	windows->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	windows->cpus = cpus;
	windows->slots = WATCH_SLOTS;
	pthread_mutex_init(&windows->lock, NULL);
	windows->read = calloc(cpus, sizeof(*windows->read));
	err = windows->read && windows->wake >= 0 ? 0 : -ENOMEM;
	err = err ?: maps_map(&windows->records, bpf->maps.watch_records);
	err = err ?: maps_map(&windows->states, bpf->maps.watch_states);
	err = err ?: maps_map(&windows->target, bpf->maps.watch_target);
	err = err ?: watch_events_open(&windows->events, &programs, wanted);
	if (err)
		watch_windows_close(windows);
	else
		*out = windows;
	return err;
}

void watch_windows_close(struct watch_windows *windows)
{
	struct watch_window *window, *next;

	if (!windows)
		return;
	watch_windows_end(windows);
	for (window = watch_windows_take(windows); window; window = next) {
		next = window->next;
		free(window);
	}
	watch_events_close(&windows->events);
	maps_unmap(&windows->records);
	maps_unmap(&windows->states);
	maps_unmap(&windows->target);
	if (windows->wake >= 0)
		close(windows->wake);
	pthread_mutex_destroy(&windows->lock);
	free(windows->read);
	free(windows);
}

static struct watch_state *state_of(const struct watch_windows *windows, __u32 cpu)
{
	return (struct watch_state *)windows->states.data + cpu;
}

int watch_windows_try(struct watch_windows *windows, __u64 line)
{
	const struct timespec pause = {.tv_nsec = TRY_AGAIN_NS};
	int slots = watch_events_free(&windows->events, line);

	/* lockline doctor, and a watch that begins, have registers for a moment: it must not cost us them for good. */
	for (int i = 1; i < TRIES && slots < WATCH_SLOTS && (slots > 0 || slots == -ENOSPC || slots == -EBUSY); i++) {
		nanosleep(&pause, NULL);
		slots = watch_events_free(&windows->events, line);
	}
	if (slots > 0 && slots < windows->slots)
		windows->slots = slots;
	return slots;
}

int watch_windows_add(struct watch_windows *windows, const struct watch_place *place)
{
	struct line *line;
	int number = -ENOSPC;

	pthread_mutex_lock(&windows->lock);
	if (windows->line_count < WATCH_LINES) {
		number = windows->line_count++;
		line = &windows->lines[number];
		*line = (struct line){.place = *place};
		for (int typed = 0; typed < 2; typed++)
			line->paces[typed].window_ns = WATCH_WINDOW_NS;
		watch_schedule_open(&line->turns, place->places, windows->slots);
	}
	pthread_mutex_unlock(&windows->lock);
	return number;
}

void watch_windows_drop(struct watch_windows *windows, __u32 line)
{
	pthread_mutex_lock(&windows->lock);
	windows->lines[line].dropped = true;
	pthread_mutex_unlock(&windows->lock);
}

void watch_windows_type(struct watch_windows *windows, __u32 line, __u32 every)
{
	pthread_mutex_lock(&windows->lock);
	windows->lines[line].turns.typed_every = every;
	pthread_mutex_unlock(&windows->lock);
}

bool watch_windows_typed_are_whole(struct watch_windows *windows, __u32 line)
{
	bool whole;

	pthread_mutex_lock(&windows->lock);
	whole = watch_schedule_typed_are_whole(&windows->lines[line].turns);
	pthread_mutex_unlock(&windows->lock);
	return whole;
}

static bool is_ending(const struct watch_windows *windows)
{
	return __atomic_load_n(&windows->ending, __ATOMIC_ACQUIRE);
}

/* Until then, or the end is asked for. */
static void sleep_until(struct watch_windows *windows, __u64 ns)
{
	struct pollfd fd = {.fd = windows->wake, .events = POLLIN};
	__u64 now;

	while (!is_ending(windows) && (now = now_ns()) < ns) {
		const struct timespec timeout = timespec_of(ns - now);

		ppoll(&fd, 1, &timeout, NULL);
	}
}

/* The line whose turn it is, and what of it; false: there is none. */
static bool next_line(struct watch_windows *windows, __u32 *number, struct line *line, struct watch_selection *turn)
{
	bool found = false;

	pthread_mutex_lock(&windows->lock);
	for (__u32 i = 0; i < windows->line_count && !found; i++) {
		__u32 next = (*number + 1 + i) % windows->line_count;
		struct line *candidate = &windows->lines[next];

		if (candidate->dropped)
			continue;
		*number = next;
		watch_schedule_next(&candidate->turns, turn);
		*line = *candidate;
		found = true;
	}
	pthread_mutex_unlock(&windows->lock);
	return found;
}

/* Copies what one CPU has recorded; of a window that goes on, only what is older than `before`. */
static __u64 read_ring(struct watch_windows *windows, __u32 cpu, __u64 before, struct watch_record *out, __u64 room)
{
	const struct ring ring = {
		.records = (struct watch_record *)windows->records.data + (size_t)cpu * WATCH_RING,
		.written = &state_of(windows, cpu)->records,
		.count = WATCH_RING,
		.bytes = sizeof(struct watch_record),
		.sequence = offsetof(struct watch_record, sequence),
	};
	struct ring_losses untold = {}; /* what has no record is known by the counts of hits */
	struct ring_pass pass;
	__u64 count = 0;

	ring_begin(&pass, &ring, windows->read[cpu], &untold);
	while (count < room && ring_next(&pass, &out[count], &untold)) {
		/* What one exception left stays together. */
		if (out[count].ns >= before && !(count && watch_is_pair(&out[count - 1], &out[count]))) {
			pass.position--;
			break;
		}
		count++;
	}
	windows->read[cpu] = pass.position;
	return count;
}

static __u64 written_by(const struct watch_windows *windows, __u32 cpu)
{
	return __atomic_load_n(&state_of(windows, cpu)->records, __ATOMIC_ACQUIRE);
}

static void skip_rings(struct watch_windows *windows)
{
	for (__u32 cpu = 0; cpu < windows->cpus; cpu++)
		windows->read[cpu] = written_by(windows, cpu);
	windows->others = watch_windows_others(windows);
}

/* Records that can still be read: a ring keeps no more of a CPU's. */
static __u64 readable(const struct watch_windows *windows)
{
	__u64 count = 0;

	for (__u32 cpu = 0; cpu < windows->cpus; cpu++) {
		__u64 unread = written_by(windows, cpu) - windows->read[cpu];

		count += unread < WATCH_RING ? unread : WATCH_RING;
	}
	return count;
}

/* How many were never looked at. */
static __u64 skip_unread(struct watch_windows *windows)
{
	__u64 count = 0;

	for (__u32 cpu = 0; cpu < windows->cpus; cpu++) {
		__u64 written = written_by(windows, cpu);

		count += written - windows->read[cpu];
		windows->read[cpu] = written;
	}
	return count;
}

/*
 * Hands on what was seen until `before`.  counted: hits of the kernel since the
 * watchpoints were set, or 0 if they still are; *taken: records since then.
 */
static int hand_on(struct watch_windows *windows, const struct watch_window *seen, __u64 before, __u64 counted,
		   __u64 *taken)
{
	__u64 room = readable(windows), count = 0, skipped = 0, others;
	struct watch_window *window;
	bool full;

	pthread_mutex_lock(&windows->lock);
	full = !watch_queue_has_room(&windows->queue, room);
	pthread_mutex_unlock(&windows->lock);
	window = watch_window_new(seen, full ? 0 : room);
	if (!window)
		return -ENOMEM;
	/* Nobody has looked at those before in time.  How many hits two records each are, the counts at the end tell. */
	if (full)
		skipped = skip_unread(windows);
	if (full && seen->typed)
		skipped = 0;
	for (__u32 cpu = 0; !full && cpu < windows->cpus; cpu++) {
		struct watch_record *records = window->records + count;
		__u64 read = read_ring(windows, cpu, before, records, room - count);

		count += seen->typed ? watch_pairs_merge(records, read, WATCH_WRITE_HITS_BOTH) : read;
	}
	window = watch_window_fit(window, count);
	*taken += count + skipped;
	others = watch_windows_others(windows) - windows->others;
	counted -= others < counted ? others : counted;
	window->lost = skipped + (counted > *taken ? counted - *taken : 0);
	window->hits = window->record_count + window->lost;
	pthread_mutex_lock(&windows->lock);
	watch_queue_put(&windows->queue, window);
	pthread_mutex_unlock(&windows->lock);
	return 0;
}

static __u64 most_hits(const struct watch_windows *windows)
{
	__u64 most = 0;

	for (__u32 i = 0; i < windows->events.cpu_count; i++)
		if (windows->events.cpus[i].hits > most)
			most = windows->events.cpus[i].hits;
	return most;
}

/* Sets the watchpoints of a window; begin: when all were there. */
static int begin_window(struct watch_windows *windows, const struct line *line, const struct watch_selection *turn,
			__u32 limit, __u64 *begin)
{
	int err;

	((struct watch_target *)windows->target.data)->tgid = line->place.tgid;
	if (watch_events_outdated(&windows->events)) {
		__atomic_store_n(&windows->cpus_changed, true, __ATOMIC_RELAXED);
		err = watch_events_renew(&windows->events);
		if (err)
			return err;
	}
	err = watch_events_set(&windows->events, line->place.address, turn->places, turn->typed, limit);
	if (err)
		return err;
	skip_rings(windows);
	err = watch_events_enable(&windows->events);
	*begin = now_ns();
	__atomic_store_n(&windows->begun, true, __ATOMIC_RELEASE);
	return err;
}

static int short_window(struct watch_windows *windows, __u32 number, struct line *line,
			const struct watch_selection *turn)
{
	/* As if all of them wrote: that two programs run is little beside the exception. */
	__u64 hit_ns = turn->typed ? windows->cost.write_ns : windows->cost.hit_ns;
	__u32 limit = watch_budget_limit(&windows->budget, hit_ns);
	struct watch_window seen = {.line = number, .places = turn->places, .typed = turn->typed};
	struct watch_pace *pace = &line->paces[turn->typed];
	__u64 counted, own = clock_ns(CLOCK_THREAD_CPUTIME_ID), taken = 0;
	int err = begin_window(windows, line, turn, limit, &seen.begin_ns);

	if (err) {
		watch_events_clear(&windows->events);
		return err;
	}
	sleep_until(windows, seen.begin_ns + pace->window_ns);
	seen.end_ns = now_ns();
	watch_events_disable(&windows->events);
	counted = watch_events_count(&windows->events);
	for (__u32 i = 0; i < windows->events.cpu_count; i++)
		seen.cut |= windows->events.cpus[i].most >= limit;
	watch_events_clear(&windows->events);
	err = hand_on(windows, &seen, ~0ull, counted, &taken);
	own = clock_ns(CLOCK_THREAD_CPUTIME_ID) - own;
	watch_budget_spend(&windows->budget, pace, most_hits(windows) * hit_ns + own, seen.cut);
	pthread_mutex_lock(&windows->lock);
	windows->lines[number].paces[turn->typed] = *pace;
	windows->own_ns += own;
	pthread_mutex_unlock(&windows->lock);
	return err;
}

/* One line of one process or the kernel alone, and all of it at once: then it need not be let go. */
static bool stays(struct watch_windows *windows, __u32 number, const struct watch_selection *turn)
{
	__u32 live = 0;
	bool same;

	pthread_mutex_lock(&windows->lock);
	for (__u32 i = 0; i < windows->line_count; i++)
		live += !windows->lines[i].dropped;
	same = watch_schedule_stay(&windows->lines[number].turns, turn);
	pthread_mutex_unlock(&windows->lock);
	return live == 1 && same;
}

static bool is_dropped(struct watch_windows *windows, __u32 number)
{
	bool dropped;

	pthread_mutex_lock(&windows->lock);
	dropped = windows->lines[number].dropped;
	pthread_mutex_unlock(&windows->lock);
	return dropped;
}

/* Without a limit of cost: slices that lie next to each other, until it is another one's turn. */
static int long_window(struct watch_windows *windows, __u32 number, const struct line *line,
		       const struct watch_selection *turn)
{
	struct watch_window seen = {.line = number, .places = turn->places, .typed = turn->typed};
	__u64 taken = 0, until, own = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int err = begin_window(windows, line, turn, 0, &seen.begin_ns);

	if (err) {
		watch_events_clear(&windows->events);
		return err;
	}
	until = seen.begin_ns + ROTATE_NS;
	while (!err) {
		__u64 lost = 0;
		bool last;

		sleep_until(windows, now_ns() + WATCH_SLICE_NS);
		last = is_ending(windows) || is_dropped(windows, number) ||
		       (now_ns() >= until && !stays(windows, number, turn)) || watch_events_outdated(&windows->events);
		seen.end_ns = now_ns();
		if (last) {
			watch_events_disable(&windows->events);
		} else if (seen.end_ns - seen.begin_ns > SETTLE_NS) {
			seen.end_ns -= SETTLE_NS;
		} else {
			continue;
		}
		if (last)
			lost = watch_events_count(&windows->events);
		err = hand_on(windows, &seen, last ? ~0ull : seen.end_ns, lost, &taken);
		seen.begin_ns = seen.end_ns;
		seen.goes_on = true;
		if (last)
			break;
	}
	watch_events_clear(&windows->events);
	pthread_mutex_lock(&windows->lock);
	windows->own_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - own;
	pthread_mutex_unlock(&windows->lock);
	return err;
}

/* Others let go of registers and files, and CPUs come back; an address does not become a better one. */
static bool may_pass(int err)
{
	return err == -ENOSPC || err == -EBUSY || err == -ENODEV || err == -EMFILE || err == -ENFILE;
}

static void *run(void *data)
{
	struct watch_windows *windows = data;
	__u32 number = WATCH_LINES - 1, random = 12345;
	__u64 begin = 0;
	int err = 0;

	while (!err && !is_ending(windows)) {
		struct watch_selection turn;
		struct line line;

		if (!next_line(windows, &number, &line, &turn)) {
			sleep_until(windows, now_ns() + IDLE_NS);
			continue;
		}
		random = random * 1103515245 + 12345;
		if (windows->budget.share)
			sleep_until(windows, watch_budget_next(&windows->budget, begin, now_ns(), random >> 16 & 255));
		if (is_ending(windows))
			break;
		begin = now_ns();
		err = windows->budget.share ? short_window(windows, number, &line, &turn)
					    : long_window(windows, number, &line, &turn);
		pthread_mutex_lock(&windows->lock);
		windows->lines[number].err = err;
		windows->lines[number].dropped |= err && !may_pass(err);
		pthread_mutex_unlock(&windows->lock);
		if (err && err != -ENOMEM) {
			sleep_until(windows, now_ns() + WATCH_PERIOD_NS);
			err = 0;
		}
	}
	pthread_mutex_lock(&windows->lock);
	windows->err = err;
	pthread_mutex_unlock(&windows->lock);
	return NULL;
}

int watch_windows_begin(struct watch_windows *windows, double share, const struct watch_cost *cost)
{
	const struct sched_param first = {.sched_priority = 1};
	const struct timespec pause = {.tv_nsec = 1000000};
	int err;

	windows->cost = *cost;
	watch_budget_open(&windows->budget, share, now_ns());
	err = pthread_create(&windows->thread, NULL, run, windows);
	if (err)
		return -err;
	windows->running = true;
	/* A window is to end when it is over, also where the load leaves no CPU; without it windows are longer. */
	pthread_setschedparam(windows->thread, SCHED_FIFO, &first);
	/* From the moment that the recording is said to go on, accesses are to be seen. */
	for (int i = 0; i < FIRST_WINDOW_MS && windows->line_count; i++) {
		if (__atomic_load_n(&windows->begun, __ATOMIC_ACQUIRE))
			break;
		nanosleep(&pause, NULL);
	}
	return 0;
}

void watch_windows_end(struct watch_windows *windows)
{
	const __u64 one = 1;

	if (!windows->running)
		return;
	__atomic_store_n(&windows->ending, true, __ATOMIC_RELEASE);
	if (write(windows->wake, &one, sizeof(one)) != sizeof(one))
		pthread_kill(windows->thread, 0);
	pthread_join(windows->thread, NULL);
	windows->running = false;
}

struct watch_window *watch_windows_take(struct watch_windows *windows)
{
	struct watch_window *first;

	pthread_mutex_lock(&windows->lock);
	first = watch_queue_take(&windows->queue);
	pthread_mutex_unlock(&windows->lock);
	return first;
}

int watch_windows_error(struct watch_windows *windows, __u32 line)
{
	int err;

	pthread_mutex_lock(&windows->lock);
	err = windows->err ?: windows->lines[line].err;
	pthread_mutex_unlock(&windows->lock);
	return err;
}

__u64 watch_windows_others(const struct watch_windows *windows)
{
	__u64 others = 0;

	for (__u32 cpu = 0; cpu < windows->cpus; cpu++)
		others += state_of(windows, cpu)->others;
	return others;
}

bool watch_windows_cpus_changed(const struct watch_windows *windows)
{
	return __atomic_load_n(&windows->cpus_changed, __ATOMIC_RELAXED);
}

__u64 watch_windows_own_ns(const struct watch_windows *windows)
{
	return windows->own_ns;
}
