/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Help texts, in lines that fit the terminal. */
#ifndef LOCKLINE_WRAPPED_H
#define LOCKLINE_WRAPPED_H

#include <stddef.h>

/* Columns of the terminal on standard output, or COLUMNS; 80 where there is neither. */
size_t terminal_columns(void);
/*
 * Prints text on standard output and ends the line.  It goes on at column at, and its further lines begin at indent.
 * No line is longer than columns, if its words allow that.
 */
void print_wrapped(const char *text, size_t at, size_t indent, size_t columns);

#endif /* LOCKLINE_WRAPPED_H */
