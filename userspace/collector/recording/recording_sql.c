// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdarg.h>

#include "recording/recording_internal.h"

int recording_run_sql(struct recording *recording, const char *format, ...)
{
	va_list arguments;
	char *text;
	int code;

	va_start(arguments, format);
	text = sqlite3_vmprintf(format, arguments);
	va_end(arguments);
	if (!text)
		return -ENOMEM;
	code = sqlite3_exec(recording->db, text, NULL, NULL, NULL);
	sqlite3_free(text);
	return code == SQLITE_OK ? 0 : recording_failed(recording, "write");
}

int recording_ask(struct recording *recording, const char *query, __s64 *out)
{
	sqlite3_stmt *statement;
	int code = sqlite3_prepare_v2(recording->db, query, -1, &statement, NULL);

	*out = 0;
	if (code == SQLITE_OK)
		code = sqlite3_step(statement);
	if (code == SQLITE_ROW)
		*out = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : recording_failed(recording, "write");
}
