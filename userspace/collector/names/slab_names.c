// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A lock in a slab object.  The pages of a slab are one naturally aligned
 * block, so address, order and object size give the offset in the object; a
 * struct is believed if it fits the object and has such a lock at that offset.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "names/lock_hints.h"
#include "names/slab_names.h"

#define FUNCTIONS_TRIED  3
#define PARAMETERS_TRIED 6

struct object {
	struct slab_cache cache;
	__u64 slab; /* where the slab begins; 0: to be had from the cache's order */
	__u64 address;
	__u32 offset;  /* of the lock */
	bool merged;   /* with caches of other names: its own says little */
	bool any_type; /* merged, or for kmalloc */
};

static bool find_object(const struct lock_names *names, __u64 address, __u32 order, struct object *object)
{
	const struct slab_cache *cache = &object->cache;
	__u64 block = (__u64)names->page_size << order;
	__u64 slab = object->slab ? object->slab : address & ~(block - 1);
	__u32 offset;

	if (!cache->size)
		return false;
	offset = (address - slab) % cache->size;
	if (offset < cache->red_left_pad || offset - cache->red_left_pad >= cache->object_size)
		return false;
	object->offset = offset - cache->red_left_pad;
	object->address = address - object->offset;
	return true;
}

static bool fits(const struct object *object, const struct kernel_type *type)
{
	__s64 size = type->id ? types_size(type->types, type->id) : 0;

	if (size <= 0)
		return false;
	/* x86 before 6.16 allocates only as much of the FPU state at its end as the processor has. */
	if (size > object->cache.object_size && strcmp(types_name(type->types, type->id), "task_struct"))
		return false;
	/* kmalloc rounds up to the next of its sizes, which are less than a factor of two apart. */
	return !object->any_type || 2 * size > object->cache.object_size;
}

static bool is_wanted(const struct object *object, const struct kernel_type *type, const char *name,
		      enum lock_kind kind, struct lock_name *out)
{
	return fits(object, type) && !names_member(type, name, object->offset, kind, out);
}

/* The pointers that a function near the wait was called with. */
static bool try_parameters(struct lock_names *names, const struct object *object, const struct call_sites *sites,
			   enum lock_kind kind, struct kernel_type *type, struct lock_name *out)
{
	for (int i = 0; i < sites->count && i < FUNCTIONS_TRIED; i++) {
		struct kernel_type function = names_function(names, &sites->site[i]);
		bool last = !function.id;

		for (unsigned int j = 0; !last && j < PARAMETERS_TRIED; j++) {
			*type = (struct kernel_type){.types = function.types};
			type->id = types_parameter(function.types, function.id, j, &last);
			if (type->id && is_wanted(object, type, types_name(type->types, type->id), kind, out))
				return true;
		}
	}
	return false;
}

static bool try_hints(struct lock_names *names, const struct object *object, const struct call_sites *sites,
		      enum lock_kind kind, struct kernel_type *type, struct lock_name *out)
{
	const char *name;

	for (int i = 0; i < sites->count; i++) {
		for (unsigned int j = 0; (name = hint_function_type(sites->site[i].name, j)); j++) {
			*type = names_struct(names, name, sites->site[i].module);
			if (is_wanted(object, type, name, kind, out))
				return true;
		}
	}
	return false;
}

/* "signal_cache" holds signal_struct, "proc_inode_cache" proc_inode, "jbd2_journal_head" journal_head. */
static bool try_cache_name(struct lock_names *names, const struct object *object, const char *cache,
			   enum lock_kind kind, struct kernel_type *type, struct lock_name *out)
{
	static const char *const endings[] = {"_cache", "_cachep", "_slab", ""};
	static const char *const additions[] = {"", "_struct", "_info"};
	const char *module = "", *known = hint_cache_type(cache, &module);
	char stem[sizeof(object->cache.name)], name[sizeof(stem) + 8];

	if (known) {
		*type = names_struct(names, known, module);
		if (is_wanted(object, type, known, kind, out))
			return true;
	}
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		size_t length = strlen(cache), ending = strlen(endings[i]);

		if (length <= ending || strcmp(cache + length - ending, endings[i]))
			continue;
		snprintf(stem, sizeof(stem), "%.*s", (int)(length - ending), cache);
		for (size_t j = 0; j < sizeof(additions) / sizeof(*additions); j++) {
			snprintf(name, sizeof(name), "%s%s", stem, additions[j]);
			*type = names_struct(names, name, "");
			if (is_wanted(object, type, name, kind, out))
				return true;
		}
	}
	return false;
}

/* Of the caches that share one, the only whose struct has such a lock there. */
static bool try_aliases(struct lock_names *names, const struct object *object, enum lock_kind kind,
			struct kernel_type *type, struct lock_name *out)
{
	struct kernel_type candidate;
	struct lock_name name = {};
	const char *alias;
	int found = 0;

	for (size_t i = 0; (alias = slab_aliases_get(&names->aliases, object->cache.name, i)); i++) {
		if (!try_cache_name(names, object, alias, kind, &candidate, &name))
			continue;
		/* UNIX and UNIX-STREAM hold the same. */
		if (found && !strcmp(name.name, out->name))
			continue;
		if (found++)
			return false;
		name.source = out->source;
		*out = name;
		*type = candidate;
		name = (struct lock_name){};
	}
	return found;
}

static bool try_type(struct lock_names *names, const struct object *object, const struct call_sites *sites,
		     enum lock_kind kind, struct kernel_type *type, struct lock_name *out)
{
	if (!object->any_type && try_cache_name(names, object, object->cache.name, kind, type, out))
		return true;
	return try_parameters(names, object, sites, kind, type, out) ||
	       try_hints(names, object, sites, kind, type, out) ||
	       (object->merged && try_aliases(names, object, kind, type, out));
}

static bool read_member(const struct lock_names *names, const struct kernel_type *type, __u64 address,
			const char *member, void *value, size_t size)
{
	__u32 offset, member_type;

	return type->id && types_member(type->types, type->id, member, &offset, &member_type) &&
	       !resolver_read(&names->resolver, address + offset, value, size);
}

static void inode_instance(struct lock_names *names, __u64 inode, struct lock_name *out)
{
	struct kernel_type type = names_struct(names, "inode", "");
	struct kernel_type super_block = names_struct(names, "super_block", "");
	char device[32] = "";
	__u64 number, super;

	if (!read_member(names, &type, inode, "i_ino", &number, sizeof(number)))
		return;
	if (read_member(names, &type, inode, "i_sb", &super, sizeof(super)))
		read_member(names, &super_block, super, "s_id", device, sizeof(device) - 1);
	snprintf(out->instance, sizeof(out->instance), "inode %llu %.12s", number, device);
}

/* Which of the many objects of its type: only where the kernel has a word for it. */
void slab_instance(struct lock_names *names, const struct kernel_type *type, __u64 object, struct lock_name *out)
{
	struct kernel_type task = names_struct(names, "task_struct", "");
	const char *name = types_name(type->types, type->id);
	__u32 offset, member;
	char device[32] = "";
	__u64 owner;
	__u32 id;

	if (!strcmp(name, "task_struct")) {
		if (read_member(names, type, object, "pid", &id, sizeof(id)))
			snprintf(out->instance, sizeof(out->instance), "tid %u", id);
	} else if (!strcmp(name, "mm_struct")) {
		if (read_member(names, type, object, "owner", &owner, sizeof(owner)) && owner &&
		    read_member(names, &task, owner, "tgid", &id, sizeof(id)))
			snprintf(out->instance, sizeof(out->instance), "pid %u", id);
		out->orphan = !*out->instance;
	} else if (!strcmp(name, "super_block")) {
		if (read_member(names, type, object, "s_id", device, sizeof(device) - 1))
			snprintf(out->instance, sizeof(out->instance), "%.31s", device);
	} else if (!strcmp(name, "inode")) {
		inode_instance(names, object, out);
	} else if (types_member(type->types, type->id, "vfs_inode", &offset, &member)) {
		inode_instance(names, object + offset, out);
	}
}

/* An element's member "lock", in the array that an object ends with. */
static bool try_array(struct lock_names *names, const struct object *object, const char *whole, const char *array,
		      const char *element, const char *called, struct lock_name *out)
{
	struct kernel_type header = names_struct(names, whole, "");
	struct kernel_type one = names_struct(names, element, "");
	__u32 begin, lock, member, distance;
	__s64 size;

	if (!header.id || !one.id || !types_member(header.types, header.id, array, &begin, &member) ||
	    !types_member(one.types, one.id, "lock", &lock, &member))
		return false;
	size = types_size(one.types, one.id);
	distance = object->offset - begin - lock;
	if (size <= 0 || object->offset < begin + lock || distance % size)
		return false;
	names_object(&one, object->address + object->offset - lock, out);
	snprintf(out->name, sizeof(out->name), "%s.lock", element);
	snprintf(out->instance, sizeof(out->instance), "%s %u", called, (__u32)(distance / size));
	return true;
}

static bool try_arrays(struct lock_names *names, const struct object *object, const struct call_sites *sites,
		       enum lock_kind kind, struct lock_name *out)
{
	if (!sites->count)
		return false;
	/* A process's own futex hash, where it is small enough for a slab. */
	if (hint_is_futex(sites->site[0].name, kind))
		return try_array(names, object, "futex_private_hash", "queues", "futex_hash_bucket", "bucket", out);
	return hint_is_semaphore(sites->site[0].name, kind) &&
	       try_array(names, object, "sem_array", "sems", "sem", "semaphore", out);
}

static bool is_kmalloc(const char *cache)
{
	return strstr(cache, "kmalloc-") || !strncmp(cache, "msg_msg-", 8) || !strncmp(cache, "memdup_user-", 12);
}

int slab_name(struct lock_names *names, const struct lock_hint *hint, const struct call_sites *sites,
	      struct lock_name *out)
{
	struct object object = {};
	struct kernel_type type;
	char cache[48];
	int err;

	err = resolver_slab(&names->resolver, hint->address, &object.cache);
	if (err)
		err = slab_pages_find(&names->slab_pages, &names->resolver, hint->address, &object.cache, &object.slab);
	if (err)
		return -ENOENT;
	object.merged = object.cache.references > 1;
	object.any_type = object.merged || is_kmalloc(object.cache.name);
	out->source = NAME_SLAB;
	out->cache = object.cache.cache;
	/* Where memory was short a slab may be smaller than the cache's usual. */
	for (int i = 0; i < (object.slab || object.cache.order == object.cache.min_order ? 1 : 2); i++) {
		if (!find_object(names, hint->address, i ? object.cache.min_order : object.cache.order, &object))
			continue;
		if (try_arrays(names, &object, sites, hint->kind, out))
			return 0;
		if (!try_type(names, &object, sites, hint->kind, &type, out))
			continue;
		names_object(&type, object.address, out);
		slab_instance(names, &type, object.address, out);
		return 0;
	}
	*out = (struct lock_name){.source = NAME_SLAB, .cache = object.cache.cache, .unsure = true};
	if (object.merged)
		snprintf(cache, sizeof(cache), "slab-%u", object.cache.object_size);
	else
		snprintf(cache, sizeof(cache), "%s", object.cache.name);
	out->called = sites->count;
	if (out->called)
		snprintf(out->name, sizeof(out->name), "%s in %s", cache, sites->site[0].name);
	else
		snprintf(out->name, sizeof(out->name), "%s", cache);
	if (find_object(names, hint->address, object.cache.order, &object))
		snprintf(out->instance, sizeof(out->instance), "+0x%x", object.offset);
	return 0;
}
