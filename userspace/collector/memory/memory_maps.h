/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Address spaces as MMAP records tell of them, and the objects mapped. */
#ifndef LOCKLINE_MEMORY_MAPS_H
#define LOCKLINE_MEMORY_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "base/hash_index.h"

#define MEMORY_NO_OBJECT ~0u
#define MEMORY_BUILD_ID  20

/* What tells files apart; of MMAP2 with a build id the same bytes hold that. */
struct memory_file_id {
	__u32 major;
	__u32 minor;
	__u64 inode;
	__u64 generation;
};

struct memory_object {
	char *name;
	struct memory_file_id file;
	__u8 build_id[MEMORY_BUILD_ID];
	__u8 build_id_size; /* 0: not known */
	bool anonymous;     /* no file: addresses stay as they are */
	bool named_by_id;   /* file holds the number of a file, not a build id or nothing */
	__u32 pid;          /* of a process that lives: who was seen to map it first; 0: not known */
	__u32 group;        /* the first object of this file; of anonymous ones one and the same */
};

struct memory_objects {
	struct memory_object *list;
	__u32 count;
	__u32 capacity;
	struct hash_index by_name;
	struct hash_index by_file;
	struct memory_budget *budget;
	__u32 changes; /* of address spaces; see memory_tasks.c */
};

void memory_objects_close(struct memory_objects *objects);
/* The object of this name and file; build_id may be NULL.  Its number, or a negative errno. */
__s64 memory_objects_find(struct memory_objects *objects, const char *name, size_t length,
			  const struct memory_file_id *file, const __u8 *build_id, size_t build_id_size);
/* Objects of this name that have no build id get this one. */
void memory_objects_set_build_id(struct memory_objects *objects, const char *name, const __u8 *build_id, size_t size);

struct memory_mapping {
	__u64 start;
	__u64 end;
	__u64 offset; /* in the object, of start */
	__u32 object;
	bool shared;    /* MAP_SHARED */
	bool anonymous; /* addresses stay as they are */
};

#define MEMORY_MAPPINGS_MAX (1u << 20) /* of one address space; the kernel's default is 65,530 */

/* An address space: sorted, without overlaps; copies share what neither has changed. */
struct memory_space;

struct memory_space *memory_space_new(struct memory_budget *budget);
struct memory_space *memory_space_copy(struct memory_space *space, struct memory_budget *budget);
void memory_space_free(struct memory_space *space, struct memory_budget *budget);
const struct memory_mapping *memory_space_find(const struct memory_space *space, __u64 address);
/* What it covers of others goes.  -ENOSPC: not within the budget. */
int memory_space_add(struct memory_space *space, const struct memory_mapping *mapping, struct memory_budget *budget);

#endif /* LOCKLINE_MEMORY_MAPS_H */
