/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Structures and prototypes of a program as JSON, from its DWARF: lockline-types/1, as types_json.h of a kernel. */
#ifndef LOCKLINE_TYPES_DWARF_H
#define LOCKLINE_TYPES_DWARF_H

struct options;

/* What types_print_json() prints, of the program that the options name. */
int types_print_dwarf(const struct options *options);

#endif /* LOCKLINE_TYPES_DWARF_H */
