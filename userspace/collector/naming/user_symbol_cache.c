// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naming/user_symbol_cache.h"

/* One entry for each hash; of two addresses with the same one the later stays. */
#define ENTRIES 2048u
struct entry {
	__u64 object;
	struct naming_place at;
	__u64 offset;
	char *name; /* NULL: free */
};

struct user_symbol_cache {
	struct entry entries[ENTRIES];
};

struct user_symbol_cache *user_symbol_cache_open(void)
{
	return calloc(1, sizeof(struct user_symbol_cache));
}

void user_symbol_cache_close(struct user_symbol_cache *cache)
{
	for (__u32 i = 0; cache && i < ENTRIES; i++)
		free(cache->entries[i].name);
	free(cache);
}

static __u32 index_of(__u64 object, const struct naming_place *at)
{
	__u64 key = (object * 0x9e3779b97f4a7c15ull ^ at->file_offset ^ at->distance) * 0x9e3779b97f4a7c15ull;

	return (key >> 32) & (ENTRIES - 1);
}

bool user_symbol_cache_find(const struct user_symbol_cache *cache, __u64 object, const struct naming_place *place,
			    char *name, size_t size, __u64 *offset)
{
	const struct entry *entry = cache ? &cache->entries[index_of(object, place)] : NULL;

	if (!entry || !entry->name || entry->object != object || entry->at.file_offset != place->file_offset ||
	    entry->at.distance != place->distance)
		return false;
	snprintf(name, size, "%s", entry->name);
	*offset = entry->offset;
	return true;
}

void user_symbol_cache_put(struct user_symbol_cache *cache, __u64 object, const struct naming_place *place,
			   const char *name, __u64 offset)
{
	struct entry *entry = cache ? &cache->entries[index_of(object, place)] : NULL;

	if (!entry)
		return;
	free(entry->name);
	*entry = (struct entry){.object = object, .at = *place, .offset = offset, .name = strdup(name)};
}
