// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An address space is a sorted list of blocks of mappings.  A process that
 * forks shares its blocks with the child; a block is copied by who changes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_maps.h"

#define BLOCK 64

struct block {
	__u32 users;
	__u32 count; /* never 0 in a space */
	struct memory_mapping list[BLOCK];
};

struct memory_space {
	struct block **blocks;
	__u32 count;
	__u32 capacity;
	__u32 mappings;
};

void memory_objects_close(struct memory_objects *objects)
{
	for (__u32 i = 0; i < objects->count; i++)
		free(objects->list[i].name);
	free(objects->list);
	free(objects->by_name.slots);
	free(objects->by_file.slots);
	*objects = (struct memory_objects){};
}

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* is_anon_memory() and is_no_dso_memory() of tools/perf/util/map.h. */
static bool is_anonymous(const char *name)
{
	return !*name || !strcmp(name, "//anon") || starts_with(name, "/dev/zero") ||
	       starts_with(name, "/anon_hugepage") || starts_with(name, "[stack") || starts_with(name, "/SYSV") ||
	       !strcmp(name, "[heap]");
}

static bool same_file(const struct memory_file_id *a, const struct memory_file_id *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode && a->generation == b->generation;
}

static __u32 hash_name(const char *name, size_t length)
{
	__u64 hash = length;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (__u8)name[i]) * 0x100000001b3ull;
	return hash_two(hash, 0);
}

static __u32 hash_file(const struct memory_file_id *file)
{
	return hash_two(file->inode ^ file->generation << 17, (__u64)file->major << 32 | file->minor);
}

/* The group is what dso__cmp_id() of tools/perf/util/dso.c finds equal. */
static int group_object(struct memory_objects *objects, __u32 number)
{
	struct memory_object *object = &objects->list[number];
	static const struct memory_file_id none;
	__u32 hash = hash_file(&object->file);

	object->group = object->anonymous && same_file(&object->file, &none) ? MEMORY_NO_OBJECT - 1 : number;
	if (same_file(&object->file, &none))
		return 0;
	hash_index_for(&objects->by_file, hash, other)
	{
		if (same_file(&objects->list[other].file, &object->file)) {
			object->group = objects->list[other].group;
			return 0;
		}
	}
	return hash_index_add(&objects->by_file, objects->budget, hash, number);
}

static void set_build_id(struct memory_object *object, const __u8 *build_id, size_t size)
{
	if (!build_id || !size || size > MEMORY_BUILD_ID)
		return;
	memcpy(object->build_id, build_id, size);
	object->build_id_size = size;
}

__s64 memory_objects_find(struct memory_objects *objects, const char *name, size_t length,
			  const struct memory_file_id *file, const __u8 *build_id, size_t build_id_size)
{
	static const struct memory_file_id none;
	__u32 number = objects->count, hash;
	struct memory_object *object;
	int err;

	length = strnlen(name, length);
	if (!file)
		file = &none;
	hash = hash_name(name, length);
	hash_index_for(&objects->by_name, hash, found)
	{
		object = &objects->list[found];
		if (same_file(&object->file, file) && strlen(object->name) == length &&
		    !memcmp(object->name, name, length)) {
			set_build_id(object, build_id, build_id_size);
			return found;
		}
	}
	err = memory_reserve((void **)&objects->list, number, &objects->capacity, sizeof(*objects->list),
			     objects->budget);
	if (!err && !memory_budget_take(objects->budget, length + 32))
		err = -ENOSPC;
	if (err)
		return err;
	object = &objects->list[number];
	*object = (struct memory_object){.name = strndup(name, length), .file = *file};
	if (!object->name)
		return -ENOMEM;
	object->anonymous = is_anonymous(object->name);
	object->named_by_id = !build_id && file->inode;
	set_build_id(object, build_id, build_id_size);
	objects->count++;
	err = hash_index_add(&objects->by_name, objects->budget, hash, number);
	err = err ?: group_object(objects, number);
	return err ?: (__s64)number;
}

void memory_objects_set_build_id(struct memory_objects *objects, const char *name, const __u8 *build_id, size_t size)
{
	__u32 hash = hash_name(name, strlen(name));

	hash_index_for(&objects->by_name, hash, found)
	{
		struct memory_object *object = &objects->list[found];

		if (!object->build_id_size && !strcmp(object->name, name))
			set_build_id(object, build_id, size);
	}
}

struct memory_space *memory_space_new(struct memory_budget *budget)
{
	if (!memory_budget_take(budget, sizeof(struct memory_space)))
		return NULL;
	return calloc(1, sizeof(struct memory_space));
}

static void put_block(struct block *block, struct memory_budget *budget)
{
	if (--block->users)
		return;
	memory_budget_give(budget, sizeof(*block));
	free(block);
}

void memory_space_free(struct memory_space *space, struct memory_budget *budget)
{
	if (!space)
		return;
	for (__u32 i = 0; i < space->count; i++)
		put_block(space->blocks[i], budget);
	memory_budget_give(budget, sizeof(*space) + space->capacity * sizeof(*space->blocks));
	free(space->blocks);
	free(space);
}

struct memory_space *memory_space_copy(struct memory_space *space, struct memory_budget *budget)
{
	struct memory_space *copy = memory_space_new(budget);
	size_t size = space->count * sizeof(*space->blocks);

	if (!copy || !space->count)
		return copy;
	copy->blocks = memory_budget_take(budget, size) ? malloc(size) : NULL;
	if (!copy->blocks) {
		memory_space_free(copy, budget);
		return NULL;
	}
	memcpy(copy->blocks, space->blocks, size);
	copy->count = copy->capacity = space->count;
	copy->mappings = space->mappings;
	for (__u32 i = 0; i < copy->count; i++)
		copy->blocks[i]->users++;
	return copy;
}

/* The last block that begins at or below the address; 0 if none does. */
static __u32 find_block(const struct memory_space *space, __u64 address)
{
	__u32 low = 0, high = space->count;

	while (low < high) {
		__u32 middle = low + (high - low) / 2;

		if (space->blocks[middle]->list[0].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : 0;
}

/* The first mapping of the block that ends above the address; its count if none does. */
static __u32 find_in_block(const struct block *block, __u64 address)
{
	__u32 low = 0, high = block->count;

	while (low < high) {
		__u32 middle = low + (high - low) / 2;

		if (block->list[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct memory_mapping *memory_space_find(const struct memory_space *space, __u64 address)
{
	const struct block *block;
	__u32 at;

	if (!space || !space->count)
		return NULL;
	block = space->blocks[find_block(space, address)];
	at = find_in_block(block, address);
	return at < block->count && block->list[at].start <= address ? &block->list[at] : NULL;
}

/* The block at this place, for this space alone. */
static struct block *own_block(struct memory_space *space, __u32 at, struct memory_budget *budget)
{
	struct block *block = space->blocks[at], *copy;

	if (block->users == 1)
		return block;
	copy = memory_budget_take(budget, sizeof(*copy)) ? malloc(sizeof(*copy)) : NULL;
	if (!copy)
		return NULL;
	*copy = *block;
	copy->users = 1;
	block->users--;
	space->blocks[at] = copy;
	return copy;
}

static struct block *insert_block(struct memory_space *space, __u32 at, struct memory_budget *budget)
{
	struct block *block;

	if (memory_reserve((void **)&space->blocks, space->count, &space->capacity, sizeof(*space->blocks), budget) ||
	    !memory_budget_take(budget, sizeof(*block)))
		return NULL;
	block = malloc(sizeof(*block));
	if (!block)
		return NULL;
	block->users = 1;
	block->count = 0;
	memmove(&space->blocks[at + 1], &space->blocks[at], (space->count - at) * sizeof(*space->blocks));
	space->blocks[at] = block;
	space->count++;
	return block;
}

static void remove_mapping(struct memory_space *space, __u32 which, __u32 at, struct memory_budget *budget)
{
	struct block *block = space->blocks[which];

	block->count--;
	memmove(&block->list[at], &block->list[at + 1], (block->count - at) * sizeof(block->list[0]));
	space->mappings--;
	if (block->count)
		return;
	put_block(block, budget);
	space->count--;
	memmove(&space->blocks[which], &space->blocks[which + 1], (space->count - which) * sizeof(*space->blocks));
}

/* At its place; nothing there overlaps it. */
static int insert_mapping(struct memory_space *space, const struct memory_mapping *mapping,
			  struct memory_budget *budget)
{
	__u32 which = space->count ? find_block(space, mapping->start) : 0, at;
	struct block *block, *next;

	if (space->mappings >= MEMORY_MAPPINGS_MAX)
		return -ENOSPC;
	block = space->count ? own_block(space, which, budget) : insert_block(space, 0, budget);
	if (!block)
		return -ENOSPC;
	at = find_in_block(block, mapping->start);
	if (block->count == BLOCK) {
		/* Mappings mostly come in order: a block is left full then. */
		__u32 keep = at == BLOCK ? BLOCK : BLOCK / 2;

		next = insert_block(space, which + 1, budget);
		if (!next)
			return -ENOSPC;
		next->count = BLOCK - keep;
		memcpy(next->list, &block->list[keep], next->count * sizeof(next->list[0]));
		block->count = keep;
		if (at >= keep) {
			at -= keep;
			block = next;
		}
	}
	memmove(&block->list[at + 1], &block->list[at], (block->count - at) * sizeof(block->list[0]));
	block->list[at] = *mapping;
	block->count++;
	space->mappings++;
	return 0;
}

/* Takes the range out of what is there; a mapping around it falls in two. */
static int clear_range(struct memory_space *space, __u64 start, __u64 end, struct memory_budget *budget)
{
	while (space->count) {
		__u32 which = find_block(space, start), at = find_in_block(space->blocks[which], start);
		struct memory_mapping *mapping, rest;
		struct block *block;

		if (at == space->blocks[which]->count) {
			which++;
			at = 0;
		}
		if (which == space->count || space->blocks[which]->list[at].start >= end)
			return 0;
		block = own_block(space, which, budget);
		if (!block)
			return -ENOSPC;
		mapping = &block->list[at];
		rest = *mapping;
		if (rest.start < start) {
			mapping->end = start;
			if (rest.end <= end)
				continue;
			rest.offset += end - rest.start;
			rest.start = end;
			return insert_mapping(space, &rest, budget);
		}
		if (rest.end > end) {
			mapping->offset += end - rest.start;
			mapping->start = end;
			return 0;
		}
		remove_mapping(space, which, at, budget);
	}
	return 0;
}

int memory_space_add(struct memory_space *space, const struct memory_mapping *mapping, struct memory_budget *budget)
{
	int err;

	if (mapping->start >= mapping->end)
		return 0;
	err = clear_range(space, mapping->start, mapping->end, budget);
	return err ?: insert_mapping(space, mapping, budget);
}
