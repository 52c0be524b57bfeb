// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/message.h"

#define RECORDING_COLUMNS
#include "recording/recording_internal.h"
#include "recording/recording_rows.h"

/* What is not "INSERT OR REPLACE INTO table VALUES (...)"; in a conflict, excluded is the row that was to be put. */
static const struct {
	const char *insert;
	const char *conflict;
} inserts[RECORDING_TABLES] = {
	[TABLE_WAITER] = {"INSERT OR IGNORE", NULL},
	[TABLE_STACK] = {"INSERT OR IGNORE", NULL},
	[TABLE_FRAME] = {"INSERT OR IGNORE", NULL},
	[TABLE_TIMELINE] = {"INSERT OR IGNORE", NULL},
	[TABLE_OUTLIER] = {"INSERT", NULL},
	[TABLE_SELF_CHECK] = {"INSERT", NULL},
	[TABLE_WAIT_INTERVAL] = {"INSERT", "waits = waits + excluded.waits, wait_ns = wait_ns + excluded.wait_ns,"
					   " max_ns = max(max_ns, excluded.max_ns), failed = failed + excluded.failed,"
					   " histogram = CAST(histogram || excluded.histogram AS BLOB)"},
	[TABLE_SAMPLE_TOTAL] = {"INSERT", "samples = samples + excluded.samples, waits = waits + excluded.waits,"
					  " wait_ns = wait_ns + excluded.wait_ns"},
	[TABLE_SAMPLE_INTERVAL] = {"INSERT", "samples = samples + excluded.samples, waits = waits + excluded.waits,"
					     " wait_ns = wait_ns + excluded.wait_ns"},
	[TABLE_FUTEX_SAMPLE] = {"INSERT", "samples = samples + excluded.samples, waits = waits + excluded.waits,"
					  " wait_ns = wait_ns + excluded.wait_ns"},
	[TABLE_JAVA_LOOK] = {"INSERT", "looks = looks + excluded.looks, untold = untold + excluded.untold"},
	[TABLE_JAVA_MONITOR] = {"INSERT", "looks = looks + excluded.looks, waiting = waiting + excluded.waiting"},
	[TABLE_JAVA_MONITOR_THREAD] = {"INSERT", "looks = looks + excluded.looks"},
	[TABLE_FUTEX_HOLDER] = {"INSERT", "looks = looks + excluded.looks"},
	[TABLE_CLOCK_SAMPLE] = {"INSERT", "samples = samples + excluded.samples, reads = reads + excluded.reads,"
					  " read_ns = read_ns + excluded.read_ns"},
	[TABLE_FUTEX_BUCKET] = {"INSERT", "waits = waits + excluded.waits, wait_ns = wait_ns + excluded.wait_ns,"
					  " max_ns = max(max_ns, excluded.max_ns)"},
	/* What was seen of the holder while the wait lasted is kept. */
	[TABLE_EPISODE] =
		{"INSERT",
		 "outlier = excluded.outlier, state = excluded.state, waiter = excluded.waiter,"
		 " lock = excluded.lock, wait_ns = excluded.wait_ns, cpu = excluded.cpu,"
		 " policy = excluded.policy, priority = excluded.priority,"
		 " stack = max(stack, excluded.stack), to_ns = max(to_ns, excluded.to_ns),"
		 " cpus = CASE WHEN excluded.cpus = x'' THEN cpus ELSE excluded.cpus END,"
		 " complete = min(complete, excluded.complete), left_out = left_out + excluded.left_out,"
		 " holder = CASE WHEN excluded.holder THEN excluded.holder ELSE holder END,"
		 " holder_state = CASE WHEN excluded.holder THEN excluded.holder_state ELSE holder_state END,"
		 " holder_stack = CASE WHEN excluded.holder THEN excluded.holder_stack ELSE holder_stack END,"
		 " holder_from = CASE WHEN excluded.holder THEN excluded.holder_from ELSE holder_from END,"
		 " interrupts = CASE WHEN interrupts = 'unknown' THEN excluded.interrupts ELSE interrupts END,"
		 " interrupts_from = CASE WHEN interrupts = 'unknown' THEN excluded.interrupts_from"
		 " ELSE interrupts_from END"},
	[TABLE_INACTIVE_WAIT] = {"INSERT",
				 "calls = calls + excluded.calls, turns = turns + excluded.turns,"
				 " max_turns = max(max_turns, excluded.max_turns), traced = traced + excluded.traced,"
				 " failed = failed + excluded.failed, wait_ns = wait_ns + excluded.wait_ns,"
				 " max_ns = max(max_ns, excluded.max_ns),"
				 " target_tgid = max(target_tgid, excluded.target_tgid),"
				 " target_comm = CASE target_comm WHEN '' THEN excluded.target_comm ELSE target_comm"
				 " END"},
	[TABLE_PTRACE_ATTACH] = {"INSERT",
				 "attaches = attaches + excluded.attaches, attach_ns = attach_ns + excluded.attach_ns,"
				 " max_ns = max(max_ns, excluded.max_ns)"},
};

static const char *const sql[STATEMENTS] = {
	[ADD_MEMORY_WAIT] = "INSERT INTO memory_wait VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
			    " records = records + excluded.records, transfers = transfers + excluded.transfers",
	[FIND_WAITER] = "SELECT id FROM waiter WHERE tid = ? AND tgid = ? AND comm = ? AND cgroup = ?",
	[FIND_TASK] = "SELECT id FROM waiter WHERE tid = ? AND tgid = ? AND comm = ?",
	[FIND_TASK_BY_TID] = "SELECT max(id) FROM waiter WHERE tid = ?",
	[FIND_TASK_OF_NAME] = "SELECT max(id) FROM waiter WHERE tid = ? AND comm = ?",
	[FIND_STACK] = "SELECT id FROM stack WHERE tgid = ? AND frames = ?",
	[FIND_CGROUP] = "SELECT 1 FROM cgroup WHERE id = ? AND path <> ''",
	[FIND_FRAME] = "SELECT 1 FROM frame WHERE tgid = ? AND address = ?",
	[FIND_OUTLIER] = "SELECT max(id) FROM outlier",
	[FIND_CELL] = "SELECT waits, wait_ns, max_ns, failed, histogram FROM cell_total WHERE lock = ? AND kind = ?"
		      " AND cpu = ?",
	[FIND_CPU] = "SELECT waits, wait_ns, max_ns, failed, histogram FROM cpu_total WHERE cpu = ? AND kind = ?",
	[FIND_HOT_LOCK] = "SELECT address FROM lock JOIN lock_total ON lock.id = lock_total.lock WHERE address"
			  " GROUP BY lock.id HAVING sum(waits) * 100 >= (SELECT sum(waits) FROM lock_total)"
			  " ORDER BY sum(waits) DESC, lock.id LIMIT 1 OFFSET ?",
	[FIND_LOCK_NAME] = "SELECT name FROM lock WHERE id = ?",
	[FIND_LOCK_TITLE] = "SELECT CASE instance WHEN '' THEN name ELSE name || '[' || instance || ']' END FROM lock"
			    " WHERE id = ?",
	[FIND_PROGRESS] = "SELECT printf('%,d waits', (SELECT sum(waits) FROM lock_total))"
			  " || ifnull((SELECT ', most for ' || name FROM lock_total JOIN lock ON lock.id = lock"
			  " WHERE name NOT IN ('', '?') GROUP BY name ORDER BY sum(wait_ns) DESC LIMIT ?), '')"
			  " || ifnull((SELECT printf('; %,d lost', sum(count)) FROM loss WHERE severity = 'loss'"
			  " HAVING sum(count) > 0), '')",
	[TRIM_OUTLIERS] = "DELETE FROM outlier WHERE interval = ?1 AND id NOT IN"
			  " (SELECT id FROM outlier WHERE interval = ?1 ORDER BY wait_ns DESC LIMIT ?2)",
	[PRUNE_OUTLIERS] = "DELETE FROM outlier WHERE begin_ns + wait_ns < ?",
	[PLACE_OUTLIERS] = "UPDATE outlier SET interval = ? WHERE interval < 0",
	[AGE_EPISODES] = "UPDATE episode SET state = 'was in progress' WHERE state = 'in progress'",
	[SET_FRAME_NAME] = "UPDATE frame SET symbol = ?3, offset = ?4, module = ?5 WHERE tgid = ?1 AND address = ?2",
	[SET_FUTEX_NAME] = "UPDATE futex SET name = ?2, object = ?3 WHERE id = ?1",
	[SET_MEMORY_LINE_PAGES] = "UPDATE memory_line SET nodes = ?2, pages = ?3 WHERE id = ?1",
	[SET_MEMORY_LINE_NAME] = "UPDATE memory_line SET symbol = ?2, symbol_offset = ?3 WHERE id = ?1",
	[DROP_MEMORY_LINE] = "DELETE FROM memory_line WHERE id = ?",
	[DROP_MEMORY_CODE] = "DELETE FROM memory_code WHERE id = ?",
	[DROP_MEMORY_THREAD] = "DELETE FROM memory_thread WHERE id = ?",
	[DROP_MEMORY_ACCESSES] = "DELETE FROM memory_access WHERE line = ?",
	[DROP_MEMORY_INTERRUPTS] = "DELETE FROM memory_interrupts WHERE line = ?",
	[DROP_MEMORY_WAITS] = "DELETE FROM memory_wait WHERE line = ?",
};

static bool temporary;

void recording_is_temporary(bool is)
{
	temporary = is;
}

const char *recording_elsewhere(void)
{
	return temporary ? "name another directory by TMPDIR" : "choose another place with -o";
}

/* One line for people, once: what follows a full disk is more of the same. */
int recording_failed(struct recording *recording, const char *what)
{
	int code = sqlite3_extended_errcode(recording->db);
	int err = sqlite3_system_errno(recording->db);
	const char *kept;

	if (recording->told)
		return -EIO;
	recording->told = true;
	/* Without an interval it is removed. */
	kept = recording->kept ? "; what was committed before stays readable" : "";
	if ((code & 0xff) == SQLITE_FULL || err == ENOSPC || err == EDQUOT) {
		message("cannot %s %s: no space left on its file system%s; free some space, or %s", what,
			recording->path, kept, recording_elsewhere());
		return -ENOSPC;
	}
	message("cannot %s %s: %s%s%s%s", what, recording->path, sqlite3_errmsg(recording->db), err ? ": " : "",
		err ? strerror(err) : "", kept);
	return -EIO;
}

static int prepare(struct recording *recording, const char *text, sqlite3_stmt **statement)
{
	return sqlite3_prepare_v3(recording->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
}

static int prepare_row(struct recording *recording, enum recording_table table)
{
	const struct recording_columns *columns = &recording_columns[table];
	sqlite3_str *text = sqlite3_str_new(recording->db);
	int code = SQLITE_NOMEM;
	char *whole;

	sqlite3_str_appendf(text, "%s INTO %s VALUES (", inserts[table].insert ?: "INSERT OR REPLACE", columns->table);
	if (columns->numbered)
		sqlite3_str_appendall(text, "NULL, ");
	for (int i = 0; i < columns->count; i++)
		sqlite3_str_appendall(text, i ? ", ?" : "?");
	sqlite3_str_appendall(text, ")");
	if (inserts[table].conflict)
		sqlite3_str_appendf(text, " ON CONFLICT DO UPDATE SET %s", inserts[table].conflict);
	whole = sqlite3_str_finish(text);
	if (whole)
		code = prepare(recording, whole, &recording->rows[table]);
	sqlite3_free(whole);
	return code;
}

int recording_prepare(struct recording *recording)
{
	int code = SQLITE_OK;

	for (int i = 0; code == SQLITE_OK && i < RECORDING_TABLES; i++)
		code = prepare_row(recording, i);
	for (int i = 0; code == SQLITE_OK && i < STATEMENTS; i++)
		code = prepare(recording, sql[i], &recording->statements[i]);
	return code;
}

void recording_finalize(struct recording *recording)
{
	for (int i = 0; i < RECORDING_TABLES; i++)
		sqlite3_finalize(recording->rows[i]);
	for (int i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(recording->statements[i]);
	memset(recording->rows, 0, sizeof(recording->rows));
	memset(recording->statements, 0, sizeof(recording->statements));
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
	sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

/* A NULL pointer would bind NULL, an empty blob is meant. */
static void bind_blob(sqlite3_stmt *statement, int at, const void *data, size_t size)
{
	sqlite3_bind_blob64(statement, at, data ?: "", size, SQLITE_STATIC);
}

static void bind_row(sqlite3_stmt *statement, enum recording_table table, const void *row)
{
	for (int i = 0; i < recording_columns[table].count; i++) {
		const struct recording_column *column = &recording_columns[table].columns[i];
		const void *member = (const char *)row + column->offset;
		const struct recorded_integer *integer = member;
		const struct recorded_value *value = member;
		const struct recorded_blob *blob = member;

		switch (column->kind) {
		case COLUMN_INTEGER:
			sqlite3_bind_int64(statement, i + 1, *(const __s64 *)member);
			break;
		case COLUMN_INTEGER_OR_NULL:
			if (integer->known)
				sqlite3_bind_int64(statement, i + 1, integer->value);
			else
				sqlite3_bind_null(statement, i + 1);
			break;
		case COLUMN_REAL:
			sqlite3_bind_double(statement, i + 1, *(const double *)member);
			break;
		case COLUMN_TEXT:
			bind_text(statement, i + 1, *(const char *const *)member);
			break;
		case COLUMN_BLOB:
			bind_blob(statement, i + 1, blob->data, blob->size);
			break;
		case COLUMN_VALUE:
			if (value->text)
				bind_text(statement, i + 1, value->text);
			else
				sqlite3_bind_int64(statement, i + 1, value->number);
			break;
		}
	}
}

/* Runs a statement whose arguments are bound. */
static int run(struct recording *recording, sqlite3_stmt *statement)
{
	int err = sqlite3_step(statement) == SQLITE_DONE ? 0 : recording_failed(recording, "write");

	sqlite3_reset(statement);
	return err;
}

/* The first column of the row that it finds; 0: none. */
static __s64 find(struct recording *recording, sqlite3_stmt *statement)
{
	__s64 found = 0;

	switch (sqlite3_step(statement)) {
	case SQLITE_ROW:
		found = sqlite3_column_int64(statement, 0);
		break;
	case SQLITE_DONE:
		break;
	default:
		found = recording_failed(recording, "write");
	}
	sqlite3_reset(statement);
	return found;
}

static int find_text(struct recording *recording, sqlite3_stmt *statement, char *out, size_t size)
{
	int code = sqlite3_step(statement), err = 0;

	snprintf(out, size, "%s", code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) ?: "" : "");
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		err = recording_failed(recording, "write");
	sqlite3_reset(statement);
	return err;
}

/* NULL if it cannot be prepared: running it tells that then. */
static sqlite3_stmt *statement_of(struct recording *recording, enum statement which)
{
	if (!recording->statements[which])
		prepare(recording, sql[which], &recording->statements[which]);
	return recording->statements[which];
}

/* The statement with its first argument, and its second, if those are integers. */
static sqlite3_stmt *with(struct recording *recording, enum statement which, __s64 first)
{
	sqlite3_stmt *statement = statement_of(recording, which);

	sqlite3_bind_int64(statement, 1, first);
	return statement;
}

static sqlite3_stmt *with_two(struct recording *recording, enum statement which, __s64 first, __s64 second)
{
	sqlite3_bind_int64(statement_of(recording, which), 2, second);
	return with(recording, which, first);
}

int recording_put_row(struct recording *recording, enum recording_table table, const void *row)
{
	int err;

	/* An import writes few of the tables. */
	if (!recording->rows[table] && prepare_row(recording, table) != SQLITE_OK)
		return recording_failed(recording, "write");
	bind_row(recording->rows[table], table, row);
	err = run(recording, recording->rows[table]);
	recording->interval |= table == TABLE_INTERVAL && !err;
	return err;
}

static int find_figures(struct recording *recording, sqlite3_stmt *statement, struct recorded_cell *cell)
{
	int code = sqlite3_step(statement), size, err = 0;

	*cell = (struct recorded_cell){0};
	if (code == SQLITE_ROW) {
		cell->waits = sqlite3_column_int64(statement, 0);
		cell->wait_ns = sqlite3_column_int64(statement, 1);
		cell->max_ns = sqlite3_column_int64(statement, 2);
		cell->failed = sqlite3_column_int64(statement, 3);
		size = sqlite3_column_bytes(statement, 4);
		if (size > (int)sizeof(cell->histogram.bytes))
			size = sizeof(cell->histogram.bytes);
		if (size > 0)
			memcpy(cell->histogram.bytes, sqlite3_column_blob(statement, 4), size);
		cell->histogram.size = size;
	} else if (code != SQLITE_DONE) {
		err = recording_failed(recording, "write");
	}
	sqlite3_reset(statement);
	return err;
}

int recording_find_cell(struct recording *recording, __s64 lock, __u32 kind, __u32 cpu, struct recorded_cell *cell)
{
	sqlite3_stmt *statement = with_two(recording, FIND_CELL, lock, kind);

	sqlite3_bind_int64(statement, 3, cpu);
	return find_figures(recording, statement, cell);
}

int recording_find_cpu(struct recording *recording, __u32 cpu, __u32 kind, struct recorded_cell *cell)
{
	return find_figures(recording, with_two(recording, FIND_CPU, cpu, kind), cell);
}

int recording_put_text(struct recording *recording, const char *name, const char *text)
{
	return recording_put(recording, meta, .name = name, .value = {.text = text});
}

int recording_put_number(struct recording *recording, const char *name, __s64 number)
{
	return recording_put(recording, meta, .name = name, .value = {.number = number});
}

int recording_add_memory_wait(struct recording *recording, const struct recorded_memory_wait *row)
{
	sqlite3_stmt *statement = statement_of(recording, ADD_MEMORY_WAIT);

	bind_row(statement, TABLE_MEMORY_WAIT, row);
	return run(recording, statement);
}

__s64 recording_find_waiter(struct recording *recording, __u32 tid, __u32 tgid, const char *comm, __u64 cgroup)
{
	sqlite3_stmt *statement = with_two(recording, FIND_WAITER, tid, tgid);

	bind_text(statement, 3, comm);
	sqlite3_bind_int64(statement, 4, cgroup);
	return find(recording, statement);
}

__s64 recording_find_task(struct recording *recording, __u32 tid, __u32 tgid, const char *comm)
{
	sqlite3_stmt *statement = with_two(recording, FIND_TASK, tid, tgid);

	bind_text(statement, 3, comm);
	return find(recording, statement);
}

__s64 recording_find_task_by_tid(struct recording *recording, __u32 tid)
{
	return find(recording, with(recording, FIND_TASK_BY_TID, tid));
}

__s64 recording_find_task_of_name(struct recording *recording, __u32 tid, const char *comm)
{
	sqlite3_stmt *statement = with(recording, FIND_TASK_OF_NAME, tid);

	bind_text(statement, 2, comm);
	return find(recording, statement);
}

__s64 recording_find_stack(struct recording *recording, __u32 tgid, const void *frames, size_t size)
{
	sqlite3_stmt *statement = with(recording, FIND_STACK, tgid);

	bind_blob(statement, 2, frames, size);
	return find(recording, statement);
}

__s64 recording_has_cgroup(struct recording *recording, __u64 id)
{
	return find(recording, with(recording, FIND_CGROUP, id));
}

__s64 recording_has_frame(struct recording *recording, __u32 tgid, __u64 address)
{
	return find(recording, with_two(recording, FIND_FRAME, tgid, address));
}

__s64 recording_last_outlier(struct recording *recording)
{
	return find(recording, statement_of(recording, FIND_OUTLIER));
}

__s64 recording_hot_lock(struct recording *recording, __u32 rank)
{
	return find(recording, with(recording, FIND_HOT_LOCK, rank));
}

int recording_lock_name(struct recording *recording, __s64 lock, char *out, size_t size)
{
	return find_text(recording, with(recording, FIND_LOCK_NAME, lock), out, size);
}

int recording_lock_title(struct recording *recording, __s64 lock, char *out, size_t size)
{
	return find_text(recording, with(recording, FIND_LOCK_TITLE, lock), out, size);
}

int recording_progress(struct recording *recording, char *out, size_t size)
{
	return find_text(recording, with(recording, FIND_PROGRESS, 1), out, size);
}

int recording_clear(struct recording *recording, enum recording_table table)
{
	char text[64];

	snprintf(text, sizeof(text), "DELETE FROM %s", recording_columns[table].table);
	return sqlite3_exec(recording->db, text, NULL, NULL, NULL) == SQLITE_OK ? 0
										: recording_failed(recording, "write");
}

int recording_trim_outliers(struct recording *recording, __s64 interval, __u32 kept, __u64 *dropped)
{
	int err = run(recording, with_two(recording, TRIM_OUTLIERS, interval, kept));

	*dropped = err ? 0 : sqlite3_changes(recording->db);
	return err;
}

int recording_prune_outliers(struct recording *recording, __u64 before_ns)
{
	return run(recording, with(recording, PRUNE_OUTLIERS, before_ns));
}

int recording_place_outliers(struct recording *recording, __s64 interval)
{
	return run(recording, with(recording, PLACE_OUTLIERS, interval));
}

int recording_age_episodes(struct recording *recording)
{
	return run(recording, statement_of(recording, AGE_EPISODES));
}

int recording_set_frame_name(struct recording *recording, __u32 tgid, __u64 address, const char *symbol, __u64 offset,
			     const char *module)
{
	sqlite3_stmt *statement = with_two(recording, SET_FRAME_NAME, tgid, address);

	bind_text(statement, 3, symbol);
	sqlite3_bind_int64(statement, 4, offset);
	bind_text(statement, 5, module);
	return run(recording, statement);
}

int recording_set_futex_name(struct recording *recording, __s64 id, const char *name, const char *object)
{
	sqlite3_stmt *statement = with(recording, SET_FUTEX_NAME, id);

	bind_text(statement, 2, name);
	bind_text(statement, 3, object);
	return run(recording, statement);
}

int recording_set_memory_line_pages(struct recording *recording, __s64 id, const char *nodes, __s64 pages)
{
	sqlite3_stmt *statement = with(recording, SET_MEMORY_LINE_PAGES, id);

	bind_text(statement, 2, nodes);
	sqlite3_bind_int64(statement, 3, pages);
	return run(recording, statement);
}

int recording_set_memory_line_name(struct recording *recording, __s64 id, const char *symbol, __s64 offset)
{
	sqlite3_stmt *statement = with(recording, SET_MEMORY_LINE_NAME, id);

	bind_text(statement, 2, symbol);
	sqlite3_bind_int64(statement, 3, offset);
	return run(recording, statement);
}

int recording_drop_memory_line(struct recording *recording, __s64 id)
{
	return run(recording, with(recording, DROP_MEMORY_LINE, id));
}

int recording_drop_memory_code(struct recording *recording, __s64 id)
{
	return run(recording, with(recording, DROP_MEMORY_CODE, id));
}

int recording_drop_memory_thread(struct recording *recording, __s64 id)
{
	return run(recording, with(recording, DROP_MEMORY_THREAD, id));
}

int recording_drop_memory_accesses(struct recording *recording, __s64 line)
{
	return run(recording, with(recording, DROP_MEMORY_ACCESSES, line));
}

int recording_drop_memory_interrupts(struct recording *recording, __s64 line)
{
	return run(recording, with(recording, DROP_MEMORY_INTERRUPTS, line));
}

int recording_drop_memory_waits(struct recording *recording, __s64 line)
{
	return run(recording, with(recording, DROP_MEMORY_WAITS, line));
}
