// SPDX-License-Identifier: GPL-2.0-or-later
/* Command lines as a recording has them. */
#include "base/shell_words.h"
#include "tap.h"

#define WORDS(text, out) shell_words(text, sizeof(text), out, sizeof(out))

static void words_as_given(void)
{
	char out[64];

	WORDS("lockline\0record\0-a\0-d\0"
	      "4",
	      out);
	CHECK_TEXT(out, "lockline record -a -d 4");
	WORDS("lockline\0--\0sh\0-c\0echo $HOME; it's\0", out);
	CHECK_TEXT(out, "lockline -- sh -c 'echo $HOME; it'\\''s' ''");
	shell_words("", 0, out, sizeof(out));
	CHECK_TEXT(out, "");
}

static void long_lines_are_cut(void)
{
	char out[16];

	WORDS("0123456789\0"
	      "a",
	      out);
	CHECK_TEXT(out, "0123456789 ...");
	WORDS("012345678\0"
	      "a\0b\0c",
	      out);
	CHECK_TEXT(out, "012345678 a ...");
	WORDS("0123456789012345678", out);
	CHECK_TEXT(out, " ...");
	WORDS("''''''''''''", out);
	CHECK_TEXT(out, " ...");
}

int main(void)
{
	static const struct test tests[] = {TEST(words_as_given), TEST(long_lines_are_cut)};

	return RUN_TESTS(tests);
}
