/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Slab caches that the kernel merged: one cache, several names. */
#ifndef LOCKLINE_SLAB_ALIASES_H
#define LOCKLINE_SLAB_ALIASES_H

#include <stdbool.h>
#include <stddef.h>

struct slab_alias {
	char name[40];
	char cache[32]; /* the kernel's own name: ":A-0001152" */
};

struct slab_aliases {
	struct slab_alias *alias;
	size_t count;
	bool loaded;
};

void slab_aliases_close(struct slab_aliases *aliases);
/* The index-th name of the cache that has that name; NULL if there is none (left). */
const char *slab_aliases_get(struct slab_aliases *aliases, const char *name, size_t index);

#endif /* LOCKLINE_SLAB_ALIASES_H */
