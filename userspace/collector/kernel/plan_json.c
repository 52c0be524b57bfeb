// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <sqlite3.h>

#include "kernel/cpu_pairs.h"
#include "cli/message.h"
#include "kernel/plan_json.h"

static const char tables[] = "CREATE TABLE fact (name TEXT, value TEXT);"
			     "CREATE TABLE probe (signal TEXT, state TEXT, source TEXT, reason TEXT, lost TEXT);";

static const char document[] =
	"WITH plan (document) AS (SELECT json_object('schema', 'lockline-doctor/1',"
	" 'host', (SELECT json_group_object(name, value) FROM fact),"
	" 'probes', (SELECT json_group_array(json_object('signal', signal, 'state', state, 'source', source,"
	"   'reason', reason, 'lost', lost)) FROM probe)))"
	" SELECT iif(?1 IS NULL, document, json_insert(document, '$.cpu_pairs', json(?1))) FROM plan";

static int insert(sqlite3 *db, const char *sql, const char *const *values, int count)
{
	sqlite3_stmt *statement;
	int result = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	for (int i = 0; result == SQLITE_OK && i < count; i++)
		result = sqlite3_bind_text(statement, i + 1, values[i], -1, SQLITE_STATIC);
	if (result == SQLITE_OK)
		result = sqlite3_step(statement);
	sqlite3_finalize(statement);
	return result == SQLITE_DONE ? SQLITE_OK : result;
}

static int fill(sqlite3 *db, const struct plan *plan)
{
	int result = sqlite3_exec(db, tables, NULL, NULL, NULL);

	for (int i = 0; result == SQLITE_OK && i < plan->fact_count; i++) {
		const char *values[] = {plan->facts[i].name, plan->facts[i].value};

		result = insert(db, "INSERT INTO fact VALUES (?, ?)", values, 2);
	}
	for (int i = 0; result == SQLITE_OK && i < plan->probe_count; i++) {
		const struct probe *probe = &plan->probes[i];
		const char *values[] = {signal_name(probe->signal), probe_state_names[probe->state], probe->source,
					probe->reason, probe->lost};

		result = insert(db, "INSERT INTO probe VALUES (?, ?, ?, ?, ?)", values, 5);
	}
	return result;
}

int plan_print_json(const struct plan *plan, const struct cpu_pairs *pairs)
{
	char *measured = pairs ? cpu_pairs_json(pairs) : NULL;
	sqlite3_stmt *statement = NULL;
	sqlite3 *db = NULL;
	int err = 0, result;

	result = pairs && !measured ? SQLITE_NOMEM : sqlite3_open(":memory:", &db);
	if (result == SQLITE_OK)
		result = fill(db, plan);
	if (result == SQLITE_OK)
		result = sqlite3_prepare_v2(db, document, -1, &statement, NULL);
	if (result == SQLITE_OK)
		result = sqlite3_bind_text(statement, 1, measured, -1, SQLITE_STATIC);
	if (result == SQLITE_OK)
		result = sqlite3_step(statement);
	if (result != SQLITE_ROW) {
		message("cannot make the JSON text: %s", sqlite3_errstr(result));
		err = -ENOMEM;
	} else if (printf("%s\n", (const char *)sqlite3_column_text(statement, 0)) < 0 || fflush(stdout)) {
		err = -errno;
		message("cannot write to stdout: %m");
	}
	sqlite3_finalize(statement);
	sqlite3_close(db);
	sqlite3_free(measured);
	return err;
}
