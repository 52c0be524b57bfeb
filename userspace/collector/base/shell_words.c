// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <string.h>

#include "base/shell_words.h"

#define CUT " ..."

static int is_plain(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("@%+=:,./_-", c));
}

/* One word, quoted if need be; how many bytes it takes. */
static size_t put_word(const char *word, char *out, size_t size)
{
	size_t used = 0;
	int quote = !*word;

	for (const char *c = word; *c; c++)
		quote |= !is_plain(*c);
	if (quote && used < size)
		out[used] = '\'';
	used += quote;
	for (; *word; word++) {
		/* Within quotes a quote is: end of quotes, \', begin of quotes. */
		const char *text = *word == '\'' ? "'\\''" : word;
		size_t length = *word == '\'' ? 4 : 1;

		if (used + length <= size)
			memcpy(out + used, text, length);
		used += length;
	}
	if (quote && used < size)
		out[used] = '\'';
	return used + quote;
}

void shell_words(const char *arguments, size_t length, char *out, size_t size)
{
	size_t used = 0, room = size - sizeof(CUT);

	for (size_t at = 0; at < length; at += strlen(arguments + at) + 1) {
		size_t space = used > 0;
		size_t word =
			put_word(arguments + at, out + used + space, room > used + space ? room - used - space : 0);

		if (used + space + word > room) {
			strcpy(out + used, CUT);
			return;
		}
		if (space)
			out[used] = ' ';
		used += space + word;
	}
	out[used] = '\0';
}
