// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Totals of made-up rows, flushed into a real recording.  Built with every
 * automatic variable set to a pattern: one that is read before it is set shows.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tap.h"
#include "unsynced.h"
#include "waits/totals.h"

static struct wait_row row;
static struct cpu_state state;
static struct known_lock lock = {.address = 0xffff888000001000ull, .id = 7};
static struct lock_total total = {.lock = 7, .kind = KIND_MUTEX};

/* What the rows and locks are: one CPU, one row, one lock. */
struct cpu_state *maps_cpu(const struct maps *maps, __u32 cpu)
{
	return &state;
}

struct wait_row *maps_row(const struct maps *maps, __u32 cpu, __u32 index)
{
	return &row;
}

struct known_lock *locks_meet(struct locks *locks, const struct lock_hint *hint, int *err)
{
	*err = 0;
	return &lock;
}

struct lock_total *locks_total(struct locks *locks, struct known_lock *of, __u32 kind)
{
	return &total;
}

struct lock_total *locks_other(struct locks *locks, __u32 kind)
{
	return NULL;
}

bool locks_reused(struct locks *locks, struct known_lock *known, bool was_idle, int *err)
{
	*err = 0;
	return false;
}

void locks_used(struct locks *locks, struct lock_total *of)
{
}

void locks_bind(struct locks *locks, struct lock_total *of)
{
}

void locks_release(struct lock_total *of)
{
}

bool locks_scarce(const struct locks *locks)
{
	return false;
}

int locks_forget(struct locks *locks)
{
	return 0;
}

int locks_changed(struct locks *locks, int (*visit)(const struct lock_total *total, void *data), void *data)
{
	return visit(&total, data);
}

static void add_wait(__u64 waits)
{
	row.wait_ns += waits * 1000;
	row.histogram[histogram_bucket(1000)] += waits;
}

static void expect(__u64 waits)
{
	CHECK(total.figures.waits == waits, "%llu waits", total.figures.waits);
	CHECK(total.figures.wait_ns == 1000 * waits, "%llu ns", total.figures.wait_ns);
}

/* Flushes a row twice, and while it is written; what the recording then has of the lock. */
static void flush_often(__s64 interval, __u64 waits)
{
	static const struct sizing sizing = {.cpus = 1, .named_rows = 1, .rows = 1};
	const struct maps maps = {.sizing = &sizing};
	char path[] = "/tmp/totals-XXXXXX", sidecar[sizeof(path) + 8];
	struct recording *recording = NULL;
	struct totals *totals = NULL;
	int fd = mkstemp(path);

	close(fd);
	unlink(path);
	CHECK(!recording_create(&recording, path), "no recording");
	CHECK(!totals_open(&totals, &maps, recording, NULL), "no totals");
	if (!recording || !totals)
		return;
	total.figures = (struct figures){0};
	row = (struct wait_row){.key = row_key(lock.address, KIND_MUTEX)};
	for (int i = 0; i < 2; i++) {
		int err;

		row.waits += waits;
		add_wait(waits);
		err = totals_flush(totals, interval);
		CHECK(!err, "flush %d: %d", i, err);
	}
	expect(2 * waits);
	add_wait(1);
	CHECK(!totals_flush(totals, interval), "no flush of half a wait");
	expect(2 * waits);
	row.waits++;
	CHECK(!totals_flush(totals, interval), "no flush of a whole one");
	expect(2 * waits + 1);
	totals_close(totals);
	recording_abandon(recording);
	for (const char *const *end = (const char *const[]){"", "-wal", "-shm", NULL}; *end; end++) {
		snprintf(sidecar, sizeof(sidecar), "%s%s", path, *end);
		unlink(sidecar);
	}
}

static void a_flush_of_an_interval(void)
{
	flush_often(0, 5);
}

/* --flight: totals without intervals. */
static void a_flush_without_an_interval(void)
{
	flush_often(NO_INTERVAL, 5);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_flush_of_an_interval),
		TEST(a_flush_without_an_interval),
	};

	return RUN_TESTS(tests);
}
