/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes JSON to a stream, call by call, without spaces; commas and escapes are
 * its work.
 *
 * Text is ASCII: a byte that is none is written as if it were Latin-1.  Errors of
 * the stream are for its owner to look at.
 */
#ifndef LOCKLINE_JSON_H
#define LOCKLINE_JSON_H

#include <stdbool.h>
#include <stdio.h>
#include <linux/types.h>

#define JSON_DEEPEST 32
/* Of a text; the rest is cut. */
#define JSON_TEXT 4096

struct json {
	FILE *out;
	int depth;
	__u32 begun; /* by depth: whether something was written there, so that a comma is due */
	bool keyed;  /* a key stands before what comes */
	bool newline;
};

/* '{' or '['; the same as json_close() takes '}' or ']'. */
void json_open(struct json *json, char bracket);
void json_close(struct json *json, char bracket);
void json_key(struct json *json, const char *key);
void json_text(struct json *json, const char *text);
void json_null(struct json *json);
/* A number as the format gives it. */
__attribute__((format(printf, 2, 3))) void json_number(struct json *json, const char *format, ...);
/* What comes next begins a line. */
void json_newline(struct json *json);
/* Members of the object that is open, written by another struct json that began with .out alone. */
void json_members(struct json *json, const char *members);

static inline void json_key_text(struct json *json, const char *key, const char *text)
{
	json_key(json, key);
	json_text(json, text);
}

static inline void json_key_number(struct json *json, const char *key, __u64 number)
{
	json_key(json, key);
	json_number(json, "%llu", (unsigned long long)number);
}

#endif /* LOCKLINE_JSON_H */
