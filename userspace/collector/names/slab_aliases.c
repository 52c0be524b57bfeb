// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names/slab_aliases.h"

#define SLAB_DIRECTORY "/sys/kernel/slab"
#define STEP           256
#define MOST           4096

static bool add(struct slab_aliases *aliases, const char *name, const char *cache)
{
	struct slab_alias *larger;

	if (strlen(name) >= sizeof(larger->name) || strlen(cache) >= sizeof(larger->cache))
		return true;
	if (!(aliases->count % STEP)) {
		larger = realloc(aliases->alias, (aliases->count + STEP) * sizeof(*larger));
		if (!larger)
			return false;
		aliases->alias = larger;
	}
	snprintf(aliases->alias[aliases->count].name, sizeof(larger->name), "%s", name);
	snprintf(aliases->alias[aliases->count].cache, sizeof(larger->cache), "%s", cache);
	return ++aliases->count < MOST;
}

/* Merged caches are links to the one that they share.  Without sysfs there are no aliases to be known. */
static void load(struct slab_aliases *aliases)
{
	DIR *directory = opendir(SLAB_DIRECTORY);
	struct dirent *entry;
	char target[256];
	ssize_t length;

	aliases->loaded = true;
	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (entry->d_type != DT_LNK)
			continue;
		length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = 0;
		if (!add(aliases, entry->d_name, target))
			break;
	}
	closedir(directory);
}

void slab_aliases_close(struct slab_aliases *aliases)
{
	free(aliases->alias);
	*aliases = (struct slab_aliases){};
}

const char *slab_aliases_get(struct slab_aliases *aliases, const char *name, size_t index)
{
	const char *cache = NULL;

	if (!aliases->loaded)
		load(aliases);
	for (size_t i = 0; i < aliases->count && !cache; i++)
		if (!strcmp(aliases->alias[i].name, name))
			cache = aliases->alias[i].cache;
	for (size_t i = 0; i < aliases->count && cache; i++)
		if (!strcmp(aliases->alias[i].cache, cache) && !index--)
			return aliases->alias[i].name;
	return NULL;
}
