// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/cpu_topology.h"
#include "base/small_file.h"

/* Caches of one CPU; real ones have 4. */
#define MOST_CACHES 16
/* Tries at random, as some hit a pair that is there already. */
#define MOST_TRIES 8

const char *const cpu_relation_names[CPU_RELATIONS] = {
	[SAME_CORE] = "same core",
	[SAME_CACHE] = "same last-level cache",
	[SAME_NODE] = "same node",
	[OTHER_NODE] = "other node",
};

/* A list of CPUs begins with its lowest. */
static bool first_of_list(const char *path, __u32 *first)
{
	char text[64], *end;
	unsigned long value;

	if (first_line(path, text, sizeof(text)))
		return false;
	value = strtoul(text, &end, 10);
	if (end == text || value > INT_MAX)
		return false;
	*first = value;
	return true;
}

static void read_cache(struct cpu_place *place, const char *directory)
{
	unsigned long highest = 0;

	for (int i = 0; i < MOST_CACHES; i++) {
		char path[PATH_MAX], text[32];
		unsigned long level;
		__u32 first;

		snprintf(path, sizeof(path), "%s/cache/index%d/level", directory, i);
		if (first_line(path, text, sizeof(text)))
			return;
		level = strtoul(text, NULL, 10);
		snprintf(path, sizeof(path), "%s/cache/index%d/shared_cpu_list", directory, i);
		if (level > highest && first_of_list(path, &first)) {
			highest = level;
			place->cache = first;
		}
	}
}

void cpu_place_read(struct cpu_place *place, __u32 cpu, const char *root)
{
	char directory[PATH_MAX - 64], path[PATH_MAX];
	struct dirent *entry;
	unsigned int node;
	DIR *dir;

	*place = (struct cpu_place){.cpu = cpu, .core = cpu, .cache = cpu};
	snprintf(directory, sizeof(directory), "%s/cpu%u", root, cpu);
	snprintf(path, sizeof(path), "%s/topology/thread_siblings_list", directory);
	first_of_list(path, &place->core);
	read_cache(place, directory);
	dir = opendir(directory);
	while (dir && (entry = readdir(dir)))
		if (sscanf(entry->d_name, "node%u", &node) == 1)
			place->node = node;
	if (dir)
		closedir(dir);
}

static enum cpu_relation relation(const struct cpu_place *a, const struct cpu_place *b)
{
	return a->core == b->core     ? SAME_CORE
	       : a->cache == b->cache ? SAME_CACHE
	       : a->node == b->node   ? SAME_NODE
				      : OTHER_NODE;
}

struct choosing {
	struct cpu_choice *pairs;
	size_t count;
	size_t most;
};

static void choose(struct choosing *choosing, const struct cpu_place *a, const struct cpu_place *b)
{
	struct cpu_choice pair = {
		.first = a->cpu < b->cpu ? a->cpu : b->cpu,
		.second = a->cpu < b->cpu ? b->cpu : a->cpu,
		.relation = relation(a, b),
	};

	if (a->cpu == b->cpu || choosing->count == choosing->most)
		return;
	for (size_t i = 0; i < choosing->count; i++)
		if (choosing->pairs[i].first == pair.first && choosing->pairs[i].second == pair.second)
			return;
	choosing->pairs[choosing->count++] = pair;
}

static bool first_of_cache(const struct cpu_place *places, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (places[i].cache == places[at].cache)
			return false;
	return true;
}

/* One pair of each relation inside of the cache whose first CPU is at `at`. */
static void choose_inside(struct choosing *choosing, const struct cpu_place *places, size_t count, size_t at)
{
	bool seen[CPU_RELATIONS] = {};

	for (size_t i = at + 1; i < count; i++) {
		enum cpu_relation how = relation(&places[at], &places[i]);

		if (places[i].cache != places[at].cache || seen[how])
			continue;
		seen[how] = true;
		choose(choosing, &places[at], &places[i]);
	}
}

static void choose_outside(struct choosing *choosing, const struct cpu_place *places, size_t count,
			   enum cpu_relation wanted)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; first_of_cache(places, i) && j < count; j++)
			if (relation(&places[i], &places[j]) == wanted && first_of_cache(places, j))
				choose(choosing, &places[i], &places[j]);
}

static __u32 next_random(__u32 *state)
{
	/* xorshift32, Marsaglia 2003 */
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

size_t cpu_pairs_choose(struct cpu_choice *pairs, size_t most, const struct cpu_place *places, size_t count)
{
	struct choosing choosing = {.pairs = pairs, .most = most};
	__u32 state = 1;

	if (count * (count - 1) / 2 <= most) {
		for (size_t i = 0; i < count; i++)
			for (size_t j = i + 1; j < count; j++)
				choose(&choosing, &places[i], &places[j]);
		return choosing.count;
	}
	/* A quarter for each kind, where there are so many of it. */
	choosing.most = most / 4;
	for (size_t i = 0; i < count; i++)
		if (first_of_cache(places, i))
			choose_inside(&choosing, places, count, i);
	choosing.most = choosing.count + most / 4;
	choose_outside(&choosing, places, count, OTHER_NODE);
	choosing.most = choosing.count + most / 4;
	choose_outside(&choosing, places, count, SAME_NODE);
	choosing.most = most;
	for (size_t i = 0; i < MOST_TRIES * most && choosing.count < most; i++) {
		__u32 a = next_random(&state) % count, b = next_random(&state) % count;

		choose(&choosing, &places[a], &places[b]);
	}
	return choosing.count;
}
