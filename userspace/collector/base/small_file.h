/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Short texts of /proc and /sys, as the kernel of the day writes them. */
#ifndef LOCKLINE_SMALL_FILE_H
#define LOCKLINE_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* First line, cut to size, anything but printable ASCII as '?'.  Negative errno, with out as "". */
int first_line(const char *path, char *out, size_t size);
/* The value of the first line "key: value" or "key value". */
int value_of_key(const char *path, const char *key, char *out, size_t size);
/* A whole word of a text in which blanks separate words. */
bool has_word(const char *text, const char *word);
void make_printable(char *text);

#endif /* LOCKLINE_SMALL_FILE_H */
