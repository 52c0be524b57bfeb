/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel functions that a lockline recording of the same boot has names for. */
#ifndef LOCKLINE_RECORDED_SYMBOLS_H
#define LOCKLINE_RECORDED_SYMBOLS_H

#include "names/symbols.h"

struct recorded_symbols;

/* Of the source whose addresses are to be named: what tells whether the recording is of the same boot. */
struct recorded_boot {
	const char *hostname; /* "" if not known */
	const char *release;
	__u64 text_address; /* of _text; 0: not known */
};

/* Tells the user why not. */
int recorded_symbols_open(struct recorded_symbols **out, const char *path, const struct recorded_boot *boot);
void recorded_symbols_close(struct recorded_symbols *recorded);
/* Addresses up to the last one that the recording saw in the function. */
int recorded_symbols_lookup(const struct recorded_symbols *recorded, __u64 address, struct symbol *out);

#endif /* LOCKLINE_RECORDED_SYMBOLS_H */
