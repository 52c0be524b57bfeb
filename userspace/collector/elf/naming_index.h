/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The symbols of a module in the order of their addresses: libdwfl looks at all of them for each address. */
#ifndef LOCKLINE_NAMING_INDEX_H
#define LOCKLINE_NAMING_INDEX_H

#include <stddef.h>
#include <elfutils/libdwfl.h>

struct naming_index;

/* NULL: no memory. */
struct naming_index *naming_index_open(Dwfl_Module *module);
void naming_index_close(struct naming_index *index);

/*
 * The symbol that holds the address, by its number for dwfl_module_getsym(),
 * with where it begins; -1: none does.  Of several the innermost, then a global
 * one; only where none has a size that reaches, the last one without a size.
 */
int naming_index_find(const struct naming_index *index, GElf_Addr address, GElf_Addr *begin);
/* The last symbol that begins at the address or before, and the first one behind it; -1: there is none. */
void naming_index_beside(const struct naming_index *index, GElf_Addr address, int *before, int *behind);

#endif /* LOCKLINE_NAMING_INDEX_H */
