// SPDX-License-Identifier: GPL-2.0-or-later
/* What the JSON writer makes of its calls. */
#include <stdlib.h>

#include "base/json.h"
#include "tap.h"

static char *text;
static size_t size;

static struct json begin(void)
{
	return (struct json){.out = open_memstream(&text, &size)};
}

static void check(struct json *json, const char *want)
{
	fclose(json->out);
	CHECK_TEXT(text, want);
	free(text);
}

static void commas_and_keys(void)
{
	struct json json = begin();

	json_open(&json, '{');
	json_key_text(&json, "a", "b");
	json_key(&json, "list");
	json_open(&json, '[');
	json_number(&json, "%.1f", 0.5);
	json_null(&json);
	json_open(&json, '[');
	json_close(&json, ']');
	json_open(&json, '{');
	json_close(&json, '}');
	json_text(&json, "");
	json_close(&json, ']');
	json_key_number(&json, "n", ~0ull);
	json_close(&json, '}');
	check(&json, "{\"a\":\"b\",\"list\":[0.5,null,[],{},\"\"],\"n\":18446744073709551615}");
}

static void what_is_escaped(void)
{
	struct json json = begin();

	json_text(&json, "\"\\\n\t\x01 /~\x7f\xc3\xa9");
	check(&json, "\"\\\"\\\\\\u000a\\u0009\\u0001 /~\\u007f\\u00c3\\u00a9\"");
	json = begin();
	json_open(&json, '{');
	json_key(&json, "\"");
	json_null(&json);
	json_close(&json, '}');
	check(&json, "{\"\\\"\":null}");
}

static void a_long_text_is_cut(void)
{
	struct json json = begin();
	char *lines = malloc(2 * JSON_TEXT + 1);

	memset(lines, 'x', 2 * JSON_TEXT);
	lines[2 * JSON_TEXT] = 0;
	json_text(&json, lines);
	fclose(json.out);
	CHECK(size == JSON_TEXT + 2, "%zu", size);
	free(text);
	free(lines);
}

static void lines(void)
{
	struct json json = begin();

	json_open(&json, '{');
	for (int i = 0; i < 2; i++) {
		json_newline(&json);
		json_key_number(&json, "a", i);
	}
	json_newline(&json);
	json_close(&json, '}');
	check(&json, "{\n\"a\":0,\n\"a\":1}");
}

static void members_from_elsewhere(void)
{
	struct json part = begin(), json;
	char *members;

	json_key_number(&part, "a", 1);
	json_key_number(&part, "b", 2);
	fclose(part.out);
	members = text;
	json = begin();
	json_open(&json, '{');
	json_members(&json, members);
	json_members(&json, "");
	json_key_number(&json, "c", 3);
	json_close(&json, '}');
	check(&json, "{\"a\":1,\"b\":2,\"c\":3}");
	free(members);
}

static void deeper_than_it_counts(void)
{
	struct json json = begin();

	for (int i = 0; i < 2 * JSON_DEEPEST; i++)
		json_open(&json, '[');
	for (int i = 0; i < 2 * JSON_DEEPEST; i++)
		json_close(&json, ']');
	fclose(json.out);
	CHECK(size == 4 * JSON_DEEPEST, "%zu: %s", size, text);
	free(text);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(commas_and_keys), TEST(what_is_escaped),        TEST(a_long_text_is_cut),
		TEST(lines),           TEST(members_from_elsewhere), TEST(deeper_than_it_counts),
	};

	return RUN_TESTS(tests);
}
