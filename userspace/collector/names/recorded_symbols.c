// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/sorted.h"
#include "cli/message.h"
#include "names/recorded_symbols.h"

#define FUNCTIONS_MAX (1u << 20)

struct function {
	__u64 start;
	__u64 last;
	char *name;
	char *module;
};

struct recorded_symbols {
	struct function *list;
	__u32 count;
};

void recorded_symbols_close(struct recorded_symbols *recorded)
{
	if (!recorded)
		return;
	for (__u32 i = 0; i < recorded->count; i++) {
		free(recorded->list[i].name);
		free(recorded->list[i].module);
	}
	free(recorded->list);
	free(recorded);
}

/* A fact of the recording as text; "" if it has none. */
static void read_fact(sqlite3 *db, const char *name, char *out, size_t size)
{
	sqlite3_stmt *statement = NULL;

	*out = 0;
	if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE name = ?", -1, &statement, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0))
		snprintf(out, size, "%s", (const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
}

/* NULL, or why the recording's addresses mean something else. */
static const char *other_boot(sqlite3 *db, const struct recorded_boot *boot)
{
	char fact[256];

	read_fact(db, "hostname", fact, sizeof(fact));
	if (*fact && *boot->hostname && strcmp(fact, boot->hostname))
		return "it is of another machine";
	read_fact(db, "kernel_release", fact, sizeof(fact));
	if (*fact && *boot->release && strcmp(fact, boot->release))
		return "it is of another kernel";
	read_fact(db, "kernel_text_address", fact, sizeof(fact));
	if (!*fact || !boot->text_address)
		return "the kernel's address is not known for both";
	if (strtoull(fact, NULL, 16) != boot->text_address)
		return "it is of another boot";
	return NULL;
}

static int add_function(struct recorded_symbols *recorded, sqlite3_stmt *row)
{
	__u64 address = sqlite3_column_int64(row, 0);
	const char *name = (const char *)sqlite3_column_text(row, 1),
		   *module = (const char *)sqlite3_column_text(row, 3);
	__u64 start = address - sqlite3_column_int64(row, 2);
	struct function *last = recorded->count ? &recorded->list[recorded->count - 1] : NULL, *larger;

	if (!name || !*name || !module || start > address)
		return 0;
	if (last && last->start == start && !strcmp(last->name, name)) {
		last->last = address > last->last ? address : last->last;
		return 0;
	}
	if (recorded->count == FUNCTIONS_MAX)
		return 0;
	if (!(recorded->count & (recorded->count - 1))) {
		larger = realloc(recorded->list, (recorded->count ? 2 * recorded->count : 1) * sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		recorded->list = larger;
	}
	last = &recorded->list[recorded->count];
	*last = (struct function){.start = start, .last = address, .name = strdup(name), .module = strdup(module)};
	recorded->count++;
	return last->name && last->module ? 0 : -ENOMEM;
}

static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

int recorded_symbols_open(struct recorded_symbols **out, const char *path, const struct recorded_boot *boot)
{
	struct recorded_symbols *recorded = calloc(1, sizeof(*recorded));
	sqlite3_stmt *row = NULL;
	sqlite3 *db = NULL;
	const char *why;
	int err = 0, step = SQLITE_DONE;

	if (!recorded)
		return -ENOMEM;
	/* What a recording brings along is not run. */
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
	    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db,
			       "SELECT address, symbol, offset, module FROM frame WHERE tgid = 0"
			       " ORDER BY address",
			       -1, &row, NULL) != SQLITE_OK) {
		message("cannot read --recording %s: %s", path, db ? sqlite3_errmsg(db) : "out of memory");
		err = -EINVAL;
		goto out;
	}
	why = other_boot(db, boot);
	if (why) {
		message("--recording %s has no names for this file: %s; leave it out", path, why);
		err = -EINVAL;
		goto out;
	}
	while (!err && (step = sqlite3_step(row)) == SQLITE_ROW)
		err = add_function(recorded, row);
	if (!err && step != SQLITE_DONE) {
		message("cannot read --recording %s: %s", path, sqlite3_errmsg(db));
		err = -EINVAL;
	}
	if (recorded->count)
		qsort(recorded->list, recorded->count, sizeof(*recorded->list), compare_functions);
out:
	sqlite3_finalize(row);
	sqlite3_close(db);
	if (err)
		recorded_symbols_close(recorded);
	else
		*out = recorded;
	return err;
}

int recorded_symbols_lookup(const struct recorded_symbols *recorded, __u64 address, struct symbol *out)
{
	const size_t upto = SORTED_UPTO(recorded->list, recorded->count, start, address);
	const struct function *function = upto ? &recorded->list[upto - 1] : NULL;

	if (!function || address > function->last)
		return -ENOENT;
	*out = (struct symbol){.name = function->name,
			       .module = function->module,
			       .address = function->start,
			       .offset = address - function->start,
			       .type = 't'};
	return 0;
}
