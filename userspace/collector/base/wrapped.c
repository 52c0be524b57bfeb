// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/wrapped.h"

#define NARROWEST 60
#define USUAL     80

size_t terminal_columns(void)
{
	const char *asked = getenv("COLUMNS");
	struct winsize size = {};
	long columns = asked ? strtol(asked, NULL, 10) : 0;

	if (columns <= 0 && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		columns = size.ws_col;
	if (columns <= 0)
		return USUAL;
	return columns < NARROWEST ? NARROWEST : columns;
}

void print_wrapped(const char *text, size_t at, size_t indent, size_t columns)
{
	size_t begin = at;

	while (*(text += strspn(text, " "))) {
		size_t length = strcspn(text, " ");

		if (at > begin && at + 1 + length > columns) {
			printf("\n%*s", (int)indent, "");
			at = begin = indent;
		} else if (at > begin) {
			putchar(' ');
			at++;
		}
		printf("%.*s", (int)length, text);
		at += length;
		text += length;
	}
	putchar('\n');
}
