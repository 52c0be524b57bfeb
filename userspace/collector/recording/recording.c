// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "cli/message.h"
#include "recording/output_file.h"
#include "recording/recording.h"
#include "recording_schema.h"

struct recording {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENTS];
	struct output_file file;
	char *path; /* as it was given */
	bool told;
	bool interval; /* one was written */
	bool kept;     /* and committed */
};

static const char *const sql[STATEMENTS] = {
	[PUT_META] = "INSERT OR REPLACE INTO meta VALUES (?, ?)",
	[PUT_PROBE] = "INSERT OR REPLACE INTO probe VALUES (?, ?, ?, ?, ?)",
	[PUT_PROGRAM] = "INSERT OR REPLACE INTO program VALUES (?, ?, nullif(?, -1), ?, ?, ?)",
	[PUT_COST] = "INSERT OR REPLACE INTO cost VALUES (?, ?, ?)",
	[PUT_LOSS] = "INSERT OR REPLACE INTO loss VALUES (?, ?, ?, ?)",
	[PUT_BEGIN_COUNT] = "INSERT OR REPLACE INTO begin_count VALUES (?, ?)",
	[PUT_KIND] = "INSERT OR REPLACE INTO kind VALUES (?, ?)",
	[PUT_LOCK] = "INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?)",
	[PUT_INTERVAL] = "INSERT OR REPLACE INTO interval VALUES (?, ?, ?)",
	[PUT_LOCK_TOTAL] = "INSERT OR REPLACE INTO lock_total VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_CPU_TOTAL] = "INSERT OR REPLACE INTO cpu_total VALUES (?, ?, ?, ?, ?, ?, ?)",
	[PUT_CELL_TOTAL] = "INSERT OR REPLACE INTO cell_total VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_WAIT_INTERVAL] = "INSERT INTO wait_interval VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
			      " ON CONFLICT DO UPDATE SET waits = waits + ?5, wait_ns = wait_ns + ?6,"
			      " max_ns = max(max_ns, ?7), failed = failed + ?8,"
			      " histogram = CAST(histogram || ?9 AS BLOB)",
	[PUT_CGROUP] = "INSERT OR REPLACE INTO cgroup VALUES (?, ?)",
	[ADD_WAITER] = "INSERT OR IGNORE INTO waiter (tid, tgid, comm, cgroup) VALUES (?, ?, ?, ?)",
	[FIND_WAITER] = "SELECT id FROM waiter WHERE tid = ? AND tgid = ? AND comm = ? AND cgroup = ?",
	[FIND_TASK] = "SELECT id FROM waiter WHERE tid = ? AND tgid = ? AND comm = ?",
	[FIND_TASK_BY_TID] = "SELECT max(id) FROM waiter WHERE tid = ?",
	[ADD_STACK] = "INSERT OR IGNORE INTO stack (tgid, frames) VALUES (?, ?)",
	[FIND_STACK] = "SELECT id FROM stack WHERE tgid = ? AND frames = ?",
	[ADD_FRAME] = "INSERT OR IGNORE INTO frame VALUES (?, ?, ?, ?, ?)",
	[FIND_FRAME] = "SELECT 1 FROM frame WHERE tgid = ? AND address = ?",
	[ADD_SAMPLE_TOTAL] = "INSERT INTO sample_total VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7)"
			     " ON CONFLICT DO UPDATE SET samples = samples + 1, waits = waits + ?6,"
			     " wait_ns = wait_ns + ?7",
	[ADD_SAMPLE_INTERVAL] = "INSERT INTO sample_interval VALUES (?8, ?1, ?2, ?3, ?4, ?5, 1, ?6, ?7)"
				" ON CONFLICT DO UPDATE SET samples = samples + 1, waits = waits + ?6,"
				" wait_ns = wait_ns + ?7",
	[ADD_OUTLIER] = "INSERT INTO outlier VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[TRIM_OUTLIERS] = "DELETE FROM outlier WHERE interval = ?1 AND id NOT IN"
			  " (SELECT id FROM outlier WHERE interval = ?1 ORDER BY wait_ns DESC LIMIT ?2)",
	[CLEAR_OPEN_WAITS] = "DELETE FROM open_wait",
	[ADD_OPEN_WAIT] = "INSERT INTO open_wait VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	[PRUNE_OUTLIERS] = "DELETE FROM outlier WHERE begin_ns + wait_ns < ?",
	[PLACE_OUTLIERS] = "UPDATE outlier SET interval = ? WHERE interval < 0",
	[FIND_OUTLIER] = "SELECT max(id) FROM outlier",
	[FIND_LOCK_NAME] = "SELECT name FROM lock WHERE id = ?",
	[FIND_TASK_OF_NAME] = "SELECT max(id) FROM waiter WHERE tid = ? AND comm = ?",
	/* What was seen of the holder while the wait lasted is kept. */
	[PUT_EPISODE] = "INSERT INTO episode VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
			" ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)"
			" ON CONFLICT DO UPDATE SET outlier = ?1, state = ?2, waiter = ?4, lock = ?5, wait_ns = ?8,"
			" cpu = ?10, policy = ?11, priority = ?12, stack = max(stack, ?15), to_ns = max(to_ns, ?17),"
			" cpus = CASE WHEN ?18 = x'' THEN cpus ELSE ?18 END, complete = min(complete, ?19),"
			" left_out = left_out + ?20, holder = CASE WHEN ?21 THEN ?21 ELSE holder END,"
			" holder_state = CASE WHEN ?21 THEN ?22 ELSE holder_state END,"
			" holder_stack = CASE WHEN ?21 THEN ?23 ELSE holder_stack END,"
			" holder_from = CASE WHEN ?21 THEN ?24 ELSE holder_from END,"
			" interrupts = CASE WHEN interrupts = 'unknown' THEN ?13 ELSE interrupts END,"
			" interrupts_from = CASE WHEN interrupts = 'unknown' THEN ?14 ELSE interrupts_from END",
	[AGE_EPISODES] = "UPDATE episode SET state = 'was in progress' WHERE state = 'in progress'",
	[ADD_TIMELINE] = "INSERT OR IGNORE INTO timeline VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_BTF] = "INSERT OR REPLACE INTO btf VALUES (?, ?, ?)",
	[PUT_CPU_PAIR] = "INSERT OR REPLACE INTO cpu_pair VALUES (?, ?, ?, ?, ?, ?)",
	[PUT_HOLDER_TOTAL] = "INSERT OR REPLACE INTO holder_total VALUES (?, ?, ?, ?, ?, ?, ?)",
	[PUT_RELEASE_STACK] = "INSERT OR REPLACE INTO release_stack VALUES (?, ?, ?, ?, ?, ?, ?)",
	[PUT_FAIRNESS] = "INSERT OR REPLACE INTO fairness VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_FUTEX] = "INSERT OR REPLACE INTO futex VALUES (?, ?, ?, ?, ?, ?, ?)",
	[PUT_FUTEX_TOTAL] = "INSERT OR REPLACE INTO futex_total VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
			    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_FUTEX_SEMAPHORE] = "INSERT OR REPLACE INTO futex_semaphore VALUES (?, ?)",
	[ADD_FUTEX_SAMPLE] = "INSERT INTO futex_sample VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6)"
			     " ON CONFLICT DO UPDATE SET samples = samples + 1, waits = waits + ?5,"
			     " wait_ns = wait_ns + ?6",
	[CLEAR_FUTEX_OWNED_WAITS] = "DELETE FROM futex_owned_wait",
	[PUT_FUTEX_OWNED_WAIT] = "INSERT OR REPLACE INTO futex_owned_wait VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[CLEAR_FUTEX_BUCKETS] = "DELETE FROM futex_bucket",
	[ADD_FUTEX_BUCKET] = "INSERT INTO futex_bucket VALUES (?1, ?2, ?3, ?4, ?5)"
			     " ON CONFLICT DO UPDATE SET waits = waits + ?3, wait_ns = wait_ns + ?4,"
			     " max_ns = max(max_ns, ?5)",
	[PUT_CLOCK_TOTAL] = "INSERT OR REPLACE INTO clock_total VALUES (?, ?, ?, ?, ?)",
	[ADD_CLOCK_SAMPLE] = "INSERT INTO clock_sample VALUES (?1, ?2, 1, ?3, ?4)"
			     " ON CONFLICT DO UPDATE SET samples = samples + 1, reads = reads + ?3,"
			     " read_ns = read_ns + ?4",
	[CLEAR_INACTIVE_WAITS] = "DELETE FROM inactive_wait",
	[ADD_INACTIVE_WAIT] =
		"INSERT INTO inactive_wait VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
		" ON CONFLICT DO UPDATE SET calls = calls + ?7, turns = turns + ?8,"
		" max_turns = max(max_turns, ?9), traced = traced + ?10, failed = failed + ?11,"
		" wait_ns = wait_ns + ?12, max_ns = max(max_ns, ?13),"
		" target_tgid = max(target_tgid, ?5),"
		" target_comm = CASE target_comm WHEN '' THEN ?6 ELSE target_comm END",
	[PUT_INACTIVE_CPU] = "INSERT OR REPLACE INTO inactive_cpu VALUES (?, ?, ?)",
	[CLEAR_ATTACHES] = "DELETE FROM ptrace_attach",
	[ADD_ATTACH] = "INSERT INTO ptrace_attach VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
		       " ON CONFLICT DO UPDATE SET attaches = attaches + ?7, attach_ns = attach_ns + ?8,"
		       " max_ns = max(max_ns, ?9)",
	[PUT_ATTACH_CPU] = "INSERT OR REPLACE INTO ptrace_attach_cpu VALUES (?, ?)",
	[PUT_MEMORY_SOURCE] = "INSERT OR REPLACE INTO memory_source VALUES (?, ?, ?, ?)",
	[PUT_MEMORY_COUNT] = "INSERT OR REPLACE INTO memory_count VALUES (?, ?, ?)",
	[PUT_MEMORY_LINE] = "INSERT OR REPLACE INTO memory_line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_MEMORY_THREAD] = "INSERT OR REPLACE INTO memory_thread VALUES (?, ?, ?, ?)",
	[PUT_MEMORY_CODE] = "INSERT OR REPLACE INTO memory_code VALUES (?, ?, ?, ?, ?, ?, ?)",
	[SET_MEMORY_LINE_PAGES] = "UPDATE memory_line SET nodes = ?2, pages = ?3 WHERE id = ?1",
	[SET_MEMORY_LINE_NAME] = "UPDATE memory_line SET symbol = ?2, symbol_offset = ?3 WHERE id = ?1",
	[DROP_MEMORY_LINE] = "DELETE FROM memory_line WHERE id = ?",
	[DROP_MEMORY_CODE] = "DELETE FROM memory_code WHERE id = ?",
	[DROP_MEMORY_THREAD] = "DELETE FROM memory_thread WHERE id = ?",
	[DROP_MEMORY_ACCESSES] = "DELETE FROM memory_access WHERE line = ?",
	[DROP_MEMORY_INTERRUPTS] = "DELETE FROM memory_interrupts WHERE line = ?",
	[DROP_MEMORY_WAITS] = "DELETE FROM memory_wait WHERE line = ?",
	[PUT_MEMORY_ACCESS] =
		"INSERT OR REPLACE INTO memory_access VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
		" ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, -1), ?, ?, ?)",
	[ADD_MEMORY_WAIT] = "INSERT INTO memory_wait VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
			    " records = records + excluded.records, transfers = transfers + excluded.transfers",
	[PUT_MEMORY_PROBLEM] = "INSERT INTO memory_problem VALUES (?, ?, ?)",
	[PUT_SELF_CHECK] = "INSERT INTO self_check VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_MEMORY_INTERRUPTS] = "INSERT OR REPLACE INTO memory_interrupts VALUES (?, ?, ?, ?, ?, ?)",
	[PUT_MEMORY_WAIT] = "INSERT OR REPLACE INTO memory_wait VALUES (?, ?, ?, ?, ?)",
	[PUT_WATCH] = "INSERT OR REPLACE INTO watch VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_WATCH_WINDOW] = "INSERT OR REPLACE INTO watch_window VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_WATCH_TRANSFER] = "INSERT OR REPLACE INTO watch_transfer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_WATCH_TOLD] = "INSERT OR REPLACE INTO watch_told VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[PUT_WATCH_COMPARISON] = "INSERT OR REPLACE INTO watch_comparison VALUES (?, ?, ?, ?, ?)",
	[PUT_WATCH_ACCESS] = "INSERT OR REPLACE INTO memory_access (line, offset, code, thread, records, loads, stores,"
			     " locked, in_wait, cpus, cpu_count, nodes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
	[FIND_LOCK_TITLE] = "SELECT CASE instance WHEN '' THEN name ELSE name || '[' || instance || ']' END FROM lock"
			    " WHERE id = ?",
	[FIND_HOT_LOCK] = "SELECT address FROM lock JOIN lock_total ON lock.id = lock_total.lock WHERE address"
			  " GROUP BY lock.id HAVING sum(waits) * 100 >= (SELECT sum(waits) FROM lock_total)"
			  " ORDER BY sum(waits) DESC, lock.id LIMIT 1 OFFSET ?",
};

/* One line for people, once: what follows a full disk is more of the same. */
static int failed(struct recording *recording, const char *what)
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
		message("cannot %s %s: no space left on its file system%s; free some space, or choose another place "
			"with -o",
			what, recording->path, kept);
		return -ENOSPC;
	}
	message("cannot %s %s: %s%s%s%s", what, recording->path, sqlite3_errmsg(recording->db), err ? ": " : "",
		err ? strerror(err) : "", kept);
	return -EIO;
}

static int execute(struct recording *recording, const char *text, const char *what)
{
	return sqlite3_exec(recording->db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(recording, what);
}

static int create(struct recording **out, const char *path, bool whole)
{
	struct recording *recording = calloc(1, sizeof(*recording));
	int err;

	if (!recording)
		return -ENOMEM;
	recording->file.fd = -1;
	recording->path = strdup(path);
	err = !recording->path ? -ENOMEM
	      : whole          ? output_file_create_beside(&recording->file, path)
			       : output_file_create(&recording->file, path);
	if (err) {
		message("cannot write %s: %s; choose another place with -o", path,
			err == -EBUSY    ? "another lockline records to it"
			: err == -EEXIST ? "it is there, and no recording"
					 : strerror(-err));
		goto out;
	}
	/* One thread writes it. */
	if (sqlite3_open_v2(recording->file.path, &recording->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK) {
		err = failed(recording, "write");
		goto out;
	}
	sqlite3_extended_result_codes(recording->db, 1);
	/* A reader may hold it for a moment. */
	sqlite3_busy_timeout(recording->db, 5000);
	/*
	 * WAL: readable while it is written, whole after SIGKILL.  No fsync: the
	 * server's disks are not ours to wait for, and a kill needs none.  What
	 * nobody reads before it is whole needs no journal.
	 */
	err = execute(recording,
		      whole ? "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
			      "PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY; BEGIN;"
			    : "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0;"
			      "PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY; BEGIN;",
		      "write");
	err = err ?: execute(recording, recording_schema, "write");
	for (int i = 0; !err && i < STATEMENTS; i++)
		if (sqlite3_prepare_v3(recording->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &recording->statements[i],
				       NULL) != SQLITE_OK)
			err = failed(recording, "write");
	if (!whole)
		err = err ?: recording_commit(recording);
out:
	if (err) {
		recording_abandon(recording);
		return err;
	}
	*out = recording;
	return 0;
}

int recording_create(struct recording **out, const char *path)
{
	return create(out, path, false);
}

int recording_create_whole(struct recording **out, const char *path)
{
	return create(out, path, true);
}

static void bind(sqlite3_stmt *statement, const char *format, va_list arguments)
{
	for (int i = 1; *format; format++, i++) {
		const void *data;
		const __s64 *values;

		switch (*format) {
		case 'i':
			sqlite3_bind_int64(statement, i, va_arg(arguments, __s64));
			break;
		case 'a':
			values = va_arg(arguments, const __s64 *);
			for (int left = va_arg(arguments, int); left; left--, i++)
				sqlite3_bind_int64(statement, i, *values++);
			i--;
			break;
		case 'd':
			sqlite3_bind_double(statement, i, va_arg(arguments, double));
			break;
		case 't':
			sqlite3_bind_text(statement, i, va_arg(arguments, const char *), -1, SQLITE_STATIC);
			break;
		case 'b':
			data = va_arg(arguments, const void *);
			/* A NULL pointer would bind NULL, an empty blob is meant. */
			sqlite3_bind_blob(statement, i, data ?: "", va_arg(arguments, int), SQLITE_STATIC);
			break;
		}
	}
}

int recording_run(struct recording *recording, enum statement which, const char *format, ...)
{
	sqlite3_stmt *statement = recording->statements[which];
	va_list arguments;
	int err = 0;

	va_start(arguments, format);
	bind(statement, format, arguments);
	va_end(arguments);
	if (sqlite3_step(statement) != SQLITE_DONE)
		err = failed(recording, "write");
	recording->interval |= which == PUT_INTERVAL && !err;
	sqlite3_reset(statement);
	return err;
}

__s64 recording_find(struct recording *recording, enum statement which, const char *format, ...)
{
	sqlite3_stmt *statement = recording->statements[which];
	va_list arguments;
	__s64 found = 0;

	va_start(arguments, format);
	bind(statement, format, arguments);
	va_end(arguments);
	switch (sqlite3_step(statement)) {
	case SQLITE_ROW:
		found = sqlite3_column_int64(statement, 0);
		break;
	case SQLITE_DONE:
		break;
	default:
		found = failed(recording, "write");
	}
	sqlite3_reset(statement);
	return found;
}

int recording_find_text(struct recording *recording, enum statement which, char *out, size_t size, const char *format,
			...)
{
	sqlite3_stmt *statement = recording->statements[which];
	va_list arguments;
	int code, err = 0;

	va_start(arguments, format);
	bind(statement, format, arguments);
	va_end(arguments);
	code = sqlite3_step(statement);
	snprintf(out, size, "%s", code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) ?: "" : "");
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		err = failed(recording, "write");
	sqlite3_reset(statement);
	return err;
}

int recording_changes(const struct recording *recording)
{
	return sqlite3_changes(recording->db);
}

int recording_commit(struct recording *recording)
{
	int err = execute(recording, "COMMIT", "write");

	recording->kept |= !err && recording->interval;
	/* Into the file at once, so that the file alone holds nearly all; a reader may delay it. */
	if (!err)
		sqlite3_wal_checkpoint_v2(recording->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return err ?: execute(recording, "BEGIN", "write");
}

static void finalize(struct recording *recording)
{
	for (int i = 0; i < STATEMENTS; i++) {
		sqlite3_finalize(recording->statements[i]);
		recording->statements[i] = NULL;
	}
}

int recording_publish(struct recording *recording)
{
	int err = execute(recording, "COMMIT", "finish");

	if (err) {
		recording_abandon(recording);
		return err;
	}
	finalize(recording);
	sqlite3_close(recording->db);
	recording->db = NULL;
	err = output_file_publish(&recording->file);
	if (err)
		message("cannot write %s: %s; choose another place with -o", recording->path, strerror(-err));
	if (err)
		recording_abandon(recording);
	else
		recording_close(recording);
	return err;
}

int recording_finish(struct recording *recording)
{
	int err = execute(recording, "COMMIT", "finish");

	finalize(recording);
	/* One file without companions; where a reader has it open it stays as it is, whole. */
	if (!err) {
		sqlite3_wal_checkpoint_v2(recording->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
		sqlite3_exec(recording->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
	}
	recording_close(recording);
	return err;
}

void recording_close(struct recording *recording)
{
	if (!recording)
		return;
	for (int i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(recording->statements[i]);
	sqlite3_close(recording->db);
	output_file_close(&recording->file);
	free(recording->path);
	free(recording);
}

void recording_settle(struct recording *recording)
{
	output_file_settle(&recording->file);
}

void recording_abandon(struct recording *recording)
{
	if (recording)
		output_file_abandon(&recording->file);
	recording_close(recording);
}
