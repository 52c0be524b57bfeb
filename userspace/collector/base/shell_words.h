/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arguments as a line that a shell takes apart again. */
#ifndef LOCKLINE_SHELL_WORDS_H
#define LOCKLINE_SHELL_WORDS_H

#include <stddef.h>

/*
 * arguments: length bytes, a 0 after each, as /proc/PID/cmdline has them.  Words that a shell
 * would change are quoted.  What does not fit in size bytes is left out, word by word, and " ..." put there.
 */
void shell_words(const char *arguments, size_t length, char *out, size_t size);

#endif /* LOCKLINE_SHELL_WORDS_H */
