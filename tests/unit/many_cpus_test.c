// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tables of 512 CPUs, as large as 64 MiB let them be (test_sizing.py holds ROWS against the product), read by the
 * collector while a made-up machine waits: no lock that holds a thousandth of the waiting may be without a name.
 */
#include <stdlib.h>
#include <unistd.h>
#include <sqlite3.h>

#define CPUS        512
#define ONLINE_CPUS CPUS
#include "grace_period.h"
#include "tap.h"
#include "unsynced.h"
#include "waits/totals.h"

/* Of each CPU, and names of all. */
#define ROWS  64
#define NAMES 4096
/* ROW_PROBES of bpf/table.bpf.h */
#define PROBES  16
#define FLUSHES 7
#define KIND    KIND_SPINLOCK
#define WAIT_NS 1000

const char *const name_source_names[NAME_SOURCES] = {"unknown", [NAME_SLAB] = "slab"};

static struct wait_row rows[CPUS][ROWS + KIND_COUNT];
static struct cpu_state states[CPUS];
static const struct sizing sizing = {.cpus = CPUS, .named_rows = ROWS, .rows = ROWS + KIND_COUNT, .locks = NAMES};
static __u64 waits, unnamed;
static unsigned long long randomness;

struct cpu_state *maps_cpu(const struct maps *maps, __u32 cpu)
{
	return &states[cpu];
}

struct wait_row *maps_row(const struct maps *maps, __u32 cpu, __u32 index)
{
	return &rows[cpu][index];
}

void lock_names_resolve(struct lock_names *names, const struct lock_hint *hint, struct lock_name *name)
{
	*name = (struct lock_name){.object = hint->address};
	snprintf(name->name, sizeof(name->name), "lock %llx", hint->address);
}

bool lock_names_reused(struct lock_names *names, __u64 address, const struct lock_identity *was, const char *type,
		       __u32 offset, bool paused)
{
	return false;
}

static void programs_end(void)
{
}

static __u32 draw(__u32 below)
{
	randomness = randomness * 6364136223846793005ull + 1442695040888963407ull;
	return (randomness >> 33) % below;
}

/* As home_row() and search_row() have it. */
static struct wait_row *find_row(__u32 cpu, __u64 lock)
{
	const __u64 key = row_key(lock, KIND), hash = (key >> 10 ^ key) * 0x9e3779b97f4a7c15ull >> 32;
	const __u32 home = hash * ROWS >> 32;

	for (int i = 0; i < PROBES; i++) {
		struct wait_row *row = &rows[cpu][(home + i) % ROWS];

		if (row->key == key)
			return row;
		if (!row->key) {
			row->key = key;
			states[cpu].rows_used++;
			return row;
		}
	}
	unnamed++;
	return &rows[cpu][ROWS + KIND];
}

static void wait_for_lock(__u32 cpu, __u64 lock)
{
	struct wait_row *row = find_row(cpu, lock);

	row->wait_ns += WAIT_NS;
	row->histogram[histogram_bucket(WAIT_NS)]++;
	row->waits++;
	waits++;
}

/* A lock by its number; each is in a cache line of its own. */
static __u64 lock_at(__u64 number)
{
	return 0xffff888000000000ull + 64 * number;
}

#define RARE_FROM 1000000

/* So many locks can hold a thousandth of the waiting each. */
#define MOST_HOT 1000

/* What a CPU waits for next. */
struct load {
	const char *name;
	__u32 hot; /* locks that hold a thousandth of the waiting or more: the first so many */
	__u64 (*next)(__u32 cpu, __u64 turn);
	__u32 waits; /* of a CPU, between two flushes */
};

/* A thousand locks of all CPUs that are as hot as each other: the most that can hold a thousandth. */
static __u64 thousand(__u32 cpu, __u64 turn)
{
	return lock_at(draw(MOST_HOT));
}

/* The same number, but half of the waiting is for locks that are used once, ever new. */
static __u64 among_new_ones(__u32 cpu, __u64 turn)
{
	return turn % 2 ? lock_at(draw(500)) : lock_at(RARE_FROM + turn * CPUS + cpu);
}

/* Each CPU has a lock of its own (a run queue's), and all have 400 together; a third is new ones. */
static __u64 own_and_shared(__u32 cpu, __u64 turn)
{
	switch (draw(3)) {
	case 0:
		return lock_at(RARE_FROM + turn * CPUS + cpu);
	case 1:
		return lock_at(10000 + cpu);
	default:
		return lock_at(draw(400));
	}
}

static __s64 number(sqlite3 *db, const char *query)
{
	sqlite3_stmt *statement = NULL;
	__s64 result = -1;

	if (!sqlite3_prepare_v2(db, query, -1, &statement, NULL) && sqlite3_step(statement) == SQLITE_ROW)
		result = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return result;
}

/* How many of the first so many locks have no row with waits under their name, or more than one. */
static __u32 count_missing(sqlite3 *db, __u32 hot)
{
	static __u32 found[MOST_HOT];
	sqlite3_stmt *row = NULL;
	unsigned long long address;
	__u32 missing = 0;

	memset(found, 0, sizeof(found));
	CHECK(!sqlite3_prepare_v2(db, "SELECT name FROM lock JOIN lock_total ON id = lock WHERE waits", -1, &row, NULL),
	      "%s", sqlite3_errmsg(db));
	while (sqlite3_step(row) == SQLITE_ROW)
		if (sscanf((const char *)sqlite3_column_text(row, 0), "lock %llx", &address) == 1 &&
		    address >= lock_at(0) && address < lock_at(hot))
			found[(address - lock_at(0)) / 64]++;
	sqlite3_finalize(row);
	for (__u32 i = 0; i < hot; i++)
		missing += found[i] != 1;
	return missing;
}

static void check_file(const char *path, const struct load *load)
{
	static const char *const sums[] = {
		"SELECT sum(waits) FROM lock_total",         "SELECT sum(waits) FROM cell_total",
		"SELECT sum(waits) FROM cpu_total",          "SELECT sum(waits) FROM wait_interval",
		"SELECT sum(wait_ns) / 1000 FROM cpu_total",
	};
	__u32 missing;
	sqlite3 *db;

	CHECK(!sqlite3_open(path, &db), "cannot open the recording");
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		__s64 sum = number(db, sums[i]);

		CHECK(sum == (__s64)waits, "%s: %s: %lld, not %llu", load->name, sums[i], sum, waits);
	}
	missing = count_missing(db, load->hot);
	CHECK(!missing, "%s: %u of %u locks that hold a thousandth have no name", load->name, missing, load->hot);
	printf("# %s: %.1f %% of the waits have no name of their lock\n", load->name, 100.0 * unnamed / waits);
	sqlite3_close(db);
}

static void run(const struct load *load)
{
	const struct maps maps = {.sizing = &sizing};
	char path[] = "/tmp/many-cpus-XXXXXX", sidecar[sizeof(path) + 8];
	struct recording *recording = NULL;
	struct totals *totals = NULL;
	struct locks *locks = NULL;
	__u64 turn = 0;
	int fd = mkstemp(path), err = 0;

	close(fd);
	unlink(path);
	randomness = 7;
	memset(rows, 0, sizeof(rows));
	memset(states, 0, sizeof(states));
	waits = unnamed = 0;
	CHECK(!recording_create(&recording, path), "no recording");
	CHECK(!locks_open(&locks, recording, NULL, NAMES), "no locks");
	CHECK(!totals_open(&totals, &maps, recording, locks), "no totals");
	for (int flush = 0; totals && !err && flush < FLUSHES; flush++) {
		for (__u32 i = 0; i < load->waits; i++, turn++)
			for (__u32 cpu = 0; cpu < CPUS; cpu++)
				wait_for_lock(cpu, load->next(cpu, turn));
		err = totals_flush(totals, flush);
		CHECK(!err, "%s: flush %d: %d", load->name, flush, err);
	}
	CHECK(!recording_commit(recording), "no commit");
	totals_close(totals);
	locks_close(locks);
	check_file(path, load);
	recording_abandon(recording);
	for (const char *const *tail = (const char *const[]){"", "-wal", "-shm", NULL}; *tail; tail++) {
		snprintf(sidecar, sizeof(sidecar), "%s%s", path, *tail);
		unlink(sidecar);
	}
}

static void no_name_of_a_thousandth_is_lost(void)
{
	static const struct load loads[] = {
		{"a thousand locks", MOST_HOT, thousand, 100},
		{"500 locks among new ones", 500, among_new_ones, 100},
		{"locks of CPUs, 400 of all, new ones", 400, own_and_shared, 100},
	};

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		run(&loads[i]);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(no_name_of_a_thousandth_is_lost),
	};

	return RUN_TESTS(tests);
}
