/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Structures and prototypes as JSON, for those who name the members of cache lines: lockline-types/1. */
#ifndef LOCKLINE_TYPES_JSON_H
#define LOCKLINE_TYPES_JSON_H

#include <stdio.h>

struct options;

/*
 * Prints the functions, structures and variables that the options name, and
 * all structures that are embedded in them or that a parameter points to.
 */
int types_print_json(const struct options *options);

/* A JSON string, cut after 512 bytes; what is no ASCII as if it were Latin-1. */
void json_string(FILE *out, const char *text);
/* The next name of a list "a,b"; NULL at its end.  *list is moved, name filled. */
const char *next_name(const char **list, char *name, size_t size);

#endif /* LOCKLINE_TYPES_JSON_H */
