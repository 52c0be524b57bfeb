/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests and lock_names.c want of the symbol table besides names.h. */
#ifndef LOCKLINE_SYMBOLS_H
#define LOCKLINE_SYMBOLS_H

#include "names/names.h"

/* As symbols_open(), from a file in the format of /proc/kallsyms. */
int symbols_open_file(struct symbols **out, const char *path);
/* By the kernel's own sections for locks and scheduling where they are marked, else by name. */
bool symbols_is_lock_internal(const struct symbols *symbols, const struct symbol *symbol);

#endif /* LOCKLINE_SYMBOLS_H */
