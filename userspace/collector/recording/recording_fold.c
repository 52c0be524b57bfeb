// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording/recording_fold.h"
#include "recording/recording_internal.h"

/* Names that those which are gone were folded into: such a part of what may stand for itself. */
#define NAMES_PART 4
/* Of tasks that were met last, samples may still be on their way. */
#define NEWEST_TASKS 256
/* What the lightest of them become. */
#define OTHERS "(others)"

/*
 * temp.gone says what becomes of whom; targets are in it too, as themselves, so
 * that sums have what they had before.  Nothing that is kept in detail refers to
 * one that goes.
 */
/* clang-format off */
static const char apply_tasks[] =
	"INSERT OR IGNORE INTO temp.gone SELECT target, target FROM temp.gone;"
	"INSERT OR REPLACE INTO sample_total SELECT target, lock, kind, stack, 0, sum(samples), sum(waits), sum(wait_ns)"
	" FROM sample_total JOIN temp.gone ON gone.id = waiter GROUP BY target, lock, kind, stack;"
	"DELETE FROM sample_total WHERE waiter IN temp.going;"
	"INSERT OR REPLACE INTO futex_sample SELECT futex, role, target, 0, sum(samples), sum(waits), sum(wait_ns)"
	" FROM futex_sample JOIN temp.gone ON gone.id = task GROUP BY futex, role, target;"
	"DELETE FROM futex_sample WHERE task IN temp.going;"
	"INSERT OR REPLACE INTO clock_sample SELECT target, stack, sum(samples), sum(reads), sum(read_ns)"
	" FROM clock_sample JOIN temp.gone ON gone.id = task GROUP BY target, stack;"
	"DELETE FROM clock_sample WHERE task IN temp.going;"
	"DELETE FROM waiter WHERE id IN temp.going;"
	"DELETE FROM temp.gone;"
	"DELETE FROM stack WHERE id IN (SELECT id FROM stack WHERE tgid <> 0"
	" EXCEPT SELECT user_stack FROM sample_total EXCEPT SELECT user_stack FROM sample_interval"
	" EXCEPT SELECT user_stack FROM outlier EXCEPT SELECT stack FROM futex_sample);"
	"DELETE FROM frame WHERE tgid <> 0 AND tgid NOT IN (SELECT tgid FROM stack);";

static const char apply_locks[] =
	"INSERT OR REPLACE INTO cell_total SELECT target, kind, cpu, sum(waits), sum(wait_ns), max(max_ns), sum(failed),"
	" histogram_sum(histogram) FROM cell_total JOIN temp.gone ON gone.id = lock GROUP BY target, kind, cpu;"
	"DELETE FROM cell_total WHERE lock IN temp.going;"
	"INSERT OR REPLACE INTO lock_total SELECT target, kind, sum(waits), sum(wait_ns), max(max_ns), sum(failed), 0, 0,"
	" histogram_sum(histogram) FROM lock_total JOIN temp.gone ON gone.id = lock GROUP BY target, kind;"
	"DELETE FROM lock_total WHERE lock IN temp.going;"
	"UPDATE lock_total SET (worst_cpu, worst_cpu_ns) = (SELECT cpu, wait_ns FROM cell_total c"
	" WHERE c.lock = lock_total.lock AND c.kind = lock_total.kind ORDER BY wait_ns DESC LIMIT 1)"
	" WHERE lock IN (SELECT target FROM temp.gone) AND EXISTS (SELECT 1 FROM cell_total c"
	" WHERE c.lock = lock_total.lock AND c.kind = lock_total.kind);"
	"INSERT OR REPLACE INTO sample_total SELECT waiter, target, kind, stack, user_stack, sum(samples), sum(waits),"
	" sum(wait_ns) FROM sample_total JOIN temp.gone ON gone.id = lock"
	" GROUP BY waiter, target, kind, stack, user_stack;"
	"DELETE FROM sample_total WHERE lock IN temp.going;"
	"UPDATE lock SET address = 0, instance = '' WHERE id IN (SELECT target FROM temp.gone);"
	"DELETE FROM lock WHERE id IN temp.going;"
	"DELETE FROM temp.gone;";

static const char apply_futexes[] =
	"INSERT OR REPLACE INTO futex_total SELECT target, bits_or(ops), sum(calls), sum(slept), sum(wait_ns),"
	" max(max_ns), sum(timed_out), sum(timed_out_ns), sum(again), sum(interrupted), sum(failed), sum(timed),"
	" sum(value_2), sum(wakes), sum(wakes_empty), sum(tasks_woken), sum(latency_ns), max(max_latency_ns),"
	" max(waiters), max(wakers), max(both), sum(owner_samples), sum(owners), sum(threads), 0, 0, 0,"
	" histogram_sum(histogram), histogram_sum(latency_histogram)"
	" FROM futex_total JOIN temp.gone ON gone.id = futex GROUP BY target;"
	"DELETE FROM futex_total WHERE futex IN temp.going;"
	"INSERT OR REPLACE INTO futex_sample SELECT target, role, task, stack, sum(samples), sum(waits), sum(wait_ns)"
	" FROM futex_sample JOIN temp.gone ON gone.id = futex GROUP BY target, role, task, stack;"
	"DELETE FROM futex_sample WHERE futex IN temp.going;"
	"INSERT OR REPLACE INTO futex_semaphore SELECT target, sum(calls)"
	" FROM futex_semaphore JOIN temp.gone ON gone.id = futex GROUP BY target;"
	"DELETE FROM futex_semaphore WHERE futex IN temp.going;"
	"INSERT OR REPLACE INTO futex_holder SELECT target, state, call, function, behind, sum(looks)"
	" FROM futex_holder JOIN temp.gone ON gone.id = futex GROUP BY target, state, call, function, behind;"
	"DELETE FROM futex_holder WHERE futex IN temp.going;"
	"UPDATE futex SET tgid = 0, address = 0, shared = 0, name = '', object = ''"
	" WHERE id IN (SELECT target FROM temp.gone);"
	"DELETE FROM futex WHERE id IN temp.going;"
	"DELETE FROM temp.gone;";
/* clang-format on */

/* bits_or(INTEGER) */
static void add_bits(sqlite3_context *context, int count, sqlite3_value **values)
{
	__s64 *bits = sqlite3_aggregate_context(context, sizeof(*bits));

	if (bits)
		*bits |= sqlite3_value_int64(values[0]);
}

static void end_bits(sqlite3_context *context)
{
	const __s64 *bits = sqlite3_aggregate_context(context, 0);

	sqlite3_result_int64(context, bits ? *bits : 0);
}

int recording_fold_begin(struct recording *recording)
{
	int err;

	if (sqlite3_create_function_v2(recording->db, "bits_or", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, NULL,
				       add_bits, end_bits, NULL) != SQLITE_OK)
		return recording_failed(recording, "write");
	err = recording_run_sql(recording, "CREATE TEMP TABLE gone (id INTEGER PRIMARY KEY, target INTEGER);"
					   "CREATE TEMP VIEW going AS SELECT id FROM temp.gone WHERE id <> target;"
					   "CREATE TEMP TABLE forgotten_lock (id INTEGER PRIMARY KEY);"
					   "CREATE TEMP TABLE forgotten_futex (id INTEGER PRIMARY KEY);");
	recording->folds = !err;
	return err;
}

int recording_forgot_lock(struct recording *recording, __s64 lock)
{
	return recording->folds ? recording_run_sql(recording, "INSERT INTO temp.forgotten_lock VALUES (%lld)", lock)
				: 0;
}

int recording_forgot_futex(struct recording *recording, __s64 futex)
{
	return recording->folds ? recording_run_sql(recording, "INSERT INTO temp.forgotten_futex VALUES (%lld)", futex)
				: 0;
}

/* Of those that were left the last time, details were kept: it is too early to look at them again. */
static bool many_more(__s64 count, __s64 left, __u32 most)
{
	return count - left > most / 4;
}

/* Tasks: one for each command and cgroup, with tid 0. */
#define TASKS_IN_DETAIL                                                                \
	" EXCEPT SELECT waiter FROM sample_interval EXCEPT SELECT waiter FROM outlier" \
	" EXCEPT SELECT waiter FROM episode EXCEPT SELECT holder FROM episode"         \
	" EXCEPT SELECT task FROM timeline EXCEPT SELECT other FROM timeline"          \
	" EXCEPT SELECT holder FROM holder_total EXCEPT SELECT holder FROM release_stack"

static int fold_tasks(struct recording *recording, __u32 most)
{
	__s64 tasks, names;
	int err = recording_ask(recording, "SELECT count(*) FROM waiter WHERE tid <> 0", &tasks);

	if (err || tasks <= most || !many_more(tasks, recording->tasks_left, most))
		return err;
	err = recording_run_sql(
		recording,
		"INSERT INTO temp.gone SELECT id, NULL FROM (SELECT id FROM waiter WHERE tid <> 0"
		" AND id < (SELECT max(id) FROM waiter) - %d" TASKS_IN_DETAIL ");"
		"INSERT OR IGNORE INTO waiter (tid, tgid, comm, cgroup) SELECT DISTINCT 0, 0, comm, cgroup"
		" FROM waiter WHERE id IN (SELECT id FROM temp.gone);"
		"UPDATE temp.gone SET target = (SELECT one.id FROM waiter w JOIN waiter one ON one.tid = 0"
		" AND one.tgid = 0 AND one.comm = w.comm AND one.cgroup = w.cgroup WHERE w.id = gone.id);",
		NEWEST_TASKS);
	err = err ?: recording_run_sql(recording, apply_tasks);
	err = err ?: recording_ask(recording, "SELECT count(*) FROM waiter WHERE tid <> 0", &recording->tasks_left);
	err = err ?: recording_ask(recording, "SELECT count(*) FROM waiter WHERE tid = 0", &names);
	if (err || names <= most / NAMES_PART)
		return err;
	err = recording_run_sql(
		recording,
		"INSERT OR IGNORE INTO waiter (tid, tgid, comm, cgroup) VALUES (0, 0, '" OTHERS "', 0);"
		"INSERT INTO temp.gone SELECT id, (SELECT id FROM waiter WHERE tid = 0 AND comm = '" OTHERS "'"
		" AND cgroup = 0) FROM (SELECT id FROM waiter WHERE tid = 0 AND comm <> '" OTHERS "'" TASKS_IN_DETAIL
		") LEFT JOIN (SELECT waiter, sum(wait_ns) AS ns FROM sample_total GROUP BY waiter) ON waiter = id"
		" ORDER BY coalesce(ns, 0) LIMIT %lld",
		names - most / NAMES_PART / 2);
	return err ?: recording_run_sql(recording, apply_tasks);
}

/* Locks: one for each name, without an address. */
static int fold_locks(struct recording *recording, __u32 most)
{
	__s64 forgotten;
	int err = recording_ask(recording, "SELECT count(*) FROM temp.forgotten_lock", &forgotten);

	if (err || forgotten <= most || !many_more(forgotten, recording->locks_left, most))
		return err;
	err = recording_run_sql(
		recording,
		"INSERT INTO temp.gone SELECT id, NULL FROM (SELECT id FROM temp.forgotten_lock"
		" EXCEPT SELECT lock FROM wait_interval EXCEPT SELECT lock FROM sample_interval"
		" EXCEPT SELECT lock FROM outlier EXCEPT SELECT lock FROM open_wait EXCEPT SELECT lock FROM episode"
		" EXCEPT SELECT lock FROM timeline EXCEPT SELECT lock FROM holder_total"
		" EXCEPT SELECT lock FROM release_stack EXCEPT SELECT lock FROM fairness"
		" EXCEPT SELECT lock FROM futex_bucket EXCEPT SELECT lock FROM memory_wait"
		" EXCEPT SELECT lock FROM watch);"
		"DELETE FROM temp.forgotten_lock WHERE id IN (SELECT id FROM temp.gone);"
		/* Those without an address are what earlier ones were folded into; 1 is of locks without a row. */
		"INSERT INTO temp.gone SELECT id, NULL FROM lock WHERE address = 0 AND id <> 1;"
		"INSERT OR REPLACE INTO temp.gone SELECT id, min(id) OVER (PARTITION BY name, source) FROM lock"
		" WHERE id IN (SELECT id FROM temp.gone);");
	err = err ?: recording_ask(recording, "SELECT count(*) FROM temp.forgotten_lock", &recording->locks_left);
	return err ?: recording_run_sql(recording, apply_locks);
}

/* Futexes: one for each command, without a process and an address. */
static int fold_futexes(struct recording *recording, __u32 most)
{
	__s64 forgotten, names;
	int err = recording_ask(recording, "SELECT count(*) FROM temp.forgotten_futex", &forgotten);

	if (err || forgotten <= most)
		return err;
	/* The heaviest stay, for now. */
	err = recording_run_sql(
		recording,
		"INSERT INTO temp.gone SELECT id, NULL FROM (SELECT id FROM temp.forgotten_futex"
		" EXCEPT SELECT futex FROM futex_bucket EXCEPT SELECT futex FROM futex_owned_wait)"
		" LEFT JOIN futex_total ON futex = id ORDER BY coalesce(wait_ns, 0) LIMIT %lld;"
		"DELETE FROM temp.forgotten_futex WHERE id IN (SELECT id FROM temp.gone);"
		"INSERT INTO temp.gone SELECT id, NULL FROM futex WHERE tgid = 0 AND id <> 1;"
		"INSERT OR REPLACE INTO temp.gone SELECT id, min(id) OVER (PARTITION BY comm) FROM futex"
		" WHERE id IN (SELECT id FROM temp.gone);",
		forgotten - most / 2);
	err = err ?: recording_run_sql(recording, apply_futexes);
	err = err ?: recording_ask(recording, "SELECT count(*) FROM futex WHERE tgid = 0 AND id <> 1", &names);
	if (err || names <= most / NAMES_PART)
		return err;
	err = recording_run_sql(
		recording,
		"INSERT INTO temp.gone SELECT id, NULL FROM futex LEFT JOIN futex_total ON futex = id"
		" WHERE tgid = 0 AND id <> 1 AND comm <> '" OTHERS "' ORDER BY coalesce(wait_ns, 0) LIMIT %lld;"
		"INSERT OR IGNORE INTO temp.gone SELECT id, NULL FROM futex WHERE tgid = 0 AND comm = '" OTHERS "';"
		"UPDATE temp.gone SET target = (SELECT min(id) FROM temp.gone);"
		"UPDATE futex SET comm = '" OTHERS "' WHERE id IN (SELECT target FROM temp.gone);",
		names - most / NAMES_PART / 2);
	return err ?: recording_run_sql(recording, apply_futexes);
}

/* One that nothing refers to any more is written again if it comes back. */
static int drop_cgroups(struct recording *recording, __u32 most)
{
	__s64 cgroups;
	int err = recording_ask(recording, "SELECT count(*) FROM cgroup", &cgroups);

	if (err || cgroups <= most)
		return err;
	return recording_run_sql(recording, "DELETE FROM cgroup WHERE id NOT IN (SELECT cgroup FROM waiter);"
					    "DELETE FROM container WHERE cgroup NOT IN (SELECT id FROM cgroup);");
}

int recording_fold(struct recording *recording, __u32 most)
{
	int err = fold_locks(recording, most);

	err = err ?: fold_futexes(recording, most);
	err = err ?: fold_tasks(recording, most);
	return err ?: drop_cgroups(recording, most);
}
