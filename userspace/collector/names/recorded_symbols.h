/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel functions that a lockline recording of the same boot has names for. */
#ifndef LOCKLINE_RECORDED_SYMBOLS_H
#define LOCKLINE_RECORDED_SYMBOLS_H

#include "memory/memory_symbols.h"

struct recorded_symbols;

/* Tells the user why not. */
int recorded_symbols_open(struct recorded_symbols **out, const char *path, const struct memory_symbol_sources *sources,
			  const struct memory_kernel *kernel);
void recorded_symbols_close(struct recorded_symbols *recorded);
/* Addresses up to the last one that the recording saw in the function. */
int recorded_symbols_lookup(const struct recorded_symbols *recorded, __u64 address, struct symbol *out);

#endif /* LOCKLINE_RECORDED_SYMBOLS_H */
