// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdarg.h>

#include "base/json.h"

/* Before a key, or before a value that has none. */
static void begin_item(struct json *json)
{
	if (json->keyed) {
		json->keyed = false;
		return;
	}
	if (json->begun >> json->depth & 1)
		fputc(',', json->out);
	if (json->newline)
		fputc('\n', json->out);
	json->newline = false;
	json->begun |= 1u << json->depth;
}

static void put_text(struct json *json, const char *text)
{
	fputc('"', json->out);
	for (size_t i = 0; text[i] && i < JSON_TEXT; i++) {
		unsigned char c = text[i];

		if (c == '"' || c == '\\')
			fprintf(json->out, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(json->out, "\\u%04x", c);
		else
			fputc(c, json->out);
	}
	fputc('"', json->out);
}

void json_open(struct json *json, char bracket)
{
	begin_item(json);
	fputc(bracket, json->out);
	if (json->depth < JSON_DEEPEST - 1)
		json->depth++;
	json->begun &= ~(1u << json->depth);
}

void json_close(struct json *json, char bracket)
{
	fputc(bracket, json->out);
	if (json->depth)
		json->depth--;
	json->newline = false;
}

void json_key(struct json *json, const char *key)
{
	begin_item(json);
	put_text(json, key);
	fputc(':', json->out);
	json->keyed = true;
}

void json_text(struct json *json, const char *text)
{
	begin_item(json);
	put_text(json, text);
}

void json_null(struct json *json)
{
	begin_item(json);
	fputs("null", json->out);
}

void json_number(struct json *json, const char *format, ...)
{
	va_list arguments;

	begin_item(json);
	va_start(arguments, format);
	vfprintf(json->out, format, arguments);
	va_end(arguments);
}

void json_newline(struct json *json)
{
	json->newline = true;
}

void json_members(struct json *json, const char *members)
{
	if (!*members)
		return;
	begin_item(json);
	fputs(members, json->out);
}
