/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Structures and prototypes as JSON, for those who name the members of cache lines: lockline-types/1. */
#ifndef LOCKLINE_TYPES_JSON_H
#define LOCKLINE_TYPES_JSON_H

#include "base/json.h"

struct options;

/*
 * Prints the functions, structures and variables that the options name, and
 * all structures that are embedded in them or that a parameter points to.
 */
int types_print_json(const struct options *options);

/* The begin and the end of a document. */
void types_open_document(struct json *json, size_t pointer_size);
void types_close_document(struct json *json);
/* A name, cut after 512 bytes. */
void types_key_name(struct json *json, const char *key, const char *name);
/* The next name of a list "a,b"; NULL at its end.  *list is moved, name filled. */
const char *next_name(const char **list, char *name, size_t size);

#endif /* LOCKLINE_TYPES_JSON_H */
