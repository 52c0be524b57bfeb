// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/small_file.h"

void make_printable(char *text)
{
	size_t length = strcspn(text, "\n");

	text[length] = 0;
	while (length && text[length - 1] == ' ')
		text[--length] = 0;
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = *text == '\t' ? ' ' : '?';
}

int first_line(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	*out = 0;
	if (!file)
		return -errno;
	errno = 0;
	if (!fgets(out, size, file)) {
		*out = 0;
		err = errno ? -errno : -ENODATA;
	}
	fclose(file);
	make_printable(out);
	return err;
}

int value_of_key(const char *path, const char *key, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(key);
	char line[1024];
	int err = -ENOENT;

	*out = 0;
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		const char *value = line + length;

		if (strncmp(line, key, length) || !strchr(" \t:", *value))
			continue;
		value += strspn(value, " \t:");
		snprintf(out, size, "%.*s", (int)(size - 1), value);
		err = 0;
		break;
	}
	fclose(file);
	make_printable(out);
	return err;
}

bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at++)
		if ((at == text || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return true;
	return false;
}
