// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names/user_symbol_cache.h"

/* One entry for each hash; of two addresses with the same one the later stays. */
#define ENTRIES 2048u
/* SHA-1, the usual; shorter ones are padded with zeros. */
#define ID_SIZE 20

struct entry {
	unsigned char id[ID_SIZE];
	__u64 address;
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

static __u32 place(const unsigned char *id, __u64 address)
{
	__u64 key;

	memcpy(&key, id, sizeof(key));
	key = (key ^ address) * 0x9e3779b97f4a7c15ull;
	return (key >> 32) & (ENTRIES - 1);
}

/* A file without an id, or with a longer one, is not told from others. */
static bool padded(const unsigned char *id, int id_size, unsigned char out[ID_SIZE])
{
	memset(out, 0, ID_SIZE);
	if (!id || id_size < (int)sizeof(__u64) || id_size > ID_SIZE)
		return false;
	memcpy(out, id, id_size);
	return true;
}

bool user_symbol_cache_find(const struct user_symbol_cache *cache, const unsigned char *id, int id_size, __u64 address,
			    char *name, size_t size, __u64 *offset)
{
	unsigned char key[ID_SIZE];
	const struct entry *entry;

	if (!cache || !padded(id, id_size, key))
		return false;
	entry = &cache->entries[place(key, address)];
	if (!entry->name || entry->address != address || memcmp(entry->id, key, ID_SIZE))
		return false;
	snprintf(name, size, "%s", entry->name);
	*offset = entry->offset;
	return true;
}

void user_symbol_cache_put(struct user_symbol_cache *cache, const unsigned char *id, int id_size, __u64 address,
			   const char *name, __u64 offset)
{
	unsigned char key[ID_SIZE];
	struct entry *entry;

	if (!cache || !padded(id, id_size, key))
		return;
	entry = &cache->entries[place(key, address)];
	free(entry->name);
	*entry = (struct entry){.address = address, .offset = offset, .name = strdup(name)};
	memcpy(entry->id, key, ID_SIZE);
}
