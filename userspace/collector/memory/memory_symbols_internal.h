/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What memory_symbols.c and memory_elf.c share. */
#ifndef LOCKLINE_MEMORY_SYMBOLS_INTERNAL_H
#define LOCKLINE_MEMORY_SYMBOLS_INTERNAL_H

#include "memory/memory_symbols.h"

struct recorded_symbols;

struct memory_symbols {
	struct memory_symbol_sources sources;
	const struct symbols *kernel; /* NULL: none */
	struct symbols *opened;       /* the same, if it is not the caller's */
	__u64 shift;                  /* from the table's addresses to the source's */
	struct recorded_symbols *recorded;
	char kernel_source[128];
};

#endif /* LOCKLINE_MEMORY_SYMBOLS_INTERNAL_H */
