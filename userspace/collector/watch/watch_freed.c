// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "names/lock_types.h"
#include "watch/watch_freed.h"

#define LOCK_BYTES   4
#define COUNT(array) (sizeof(array) / sizeof(*(array)))
/* include/linux/slab.h until 6.8; since 6.9 the number of its bit is in an enum. */
#define SLAB_TYPESAFE_BY_RCU 0x00080000ull

/* Those of mm/slub.c that read or write a free object, by name up to the first dot; of 5.11 to 7.1. */
static const char *const allocating[] = {
	"___slab_alloc",
	"__free_slab",
	"__kmalloc",
	"__put_partials",
	"__rcu_free_sheaf_prepare",
	"__refill_objects",
	"__slab_alloc",
	"__slab_free",
	"__unfreeze_partials",
	"alloc_debug_processing",
	"alloc_from_new_slab",
	"alloc_from_pcs",
	"alloc_single_from_new_slab",
	"alloc_single_from_partial",
	"allocate_slab",
	"build_detached_freelist",
	"deactivate_slab",
	"do_slab_free",
	"free_debug_processing",
	"free_deferred_objects",
	"free_slab",
	"free_to_partial_list",
	"free_to_pcs",
	"get_freepointer",
	"get_freepointer_safe",
	"get_partial_node",
	"init_object",
	"kfree",
	"kfree_nolock",
	"kmalloc_nolock",
	"kmalloc_node_trace",
	"kmalloc_trace",
	"maybe_wipe_obj_freeptr",
	"memcg_alloc_abort_single",
	"new_slab",
	"put_cpu_partial",
	"refill_objects",
	"set_freepointer",
	"setup_object",
	"shuffle_freelist",
	"slab_alloc_node",
	"slab_free_freelist_hook",
	"slab_free_hook",
	"slab_post_alloc_hook",
	"unfreeze_partials",
};

/* kmem_cache_alloc_lru, __kmalloc_cache, kmem_cache_free_bulk... */
static const char *const allocating_families[] = {
	"__kmalloc_", "__kmem_cache_alloc_", "__kmem_cache_free", "kmem_cache_alloc", "kmem_cache_free",
};

static const char *const clearing[] = {
	"__memset", "__pi_memset", "__pi_memset_generic", "memset", "memset_erms", "memset_orig",
};

static const char *const initialising[] = {
	"__init_rwsem",    "__init_waitqueue_head", "__mutex_init",  "__raw_spin_lock_init",
	"__rt_mutex_init", "__rt_spin_lock_init",   "__rwlock_init", "mutex_init_generic",
};

static const char *const looking[] = {"copy_from_kernel_nofault"};

static bool is_one_of(const char *name, size_t length, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(names[i]) == length && !strncmp(names[i], name, length))
			return true;
	return false;
}

enum watch_toucher watch_toucher(const char *function)
{
	static const char profiled[] = "_noprof"; /* since 6.10 */
	size_t length = strcspn(function, "."), tail = sizeof(profiled) - 1;

	if (length > tail && !strncmp(function + length - tail, profiled, tail))
		length -= tail;
	if (is_one_of(function, length, allocating, COUNT(allocating)))
		return TOUCHER_ALLOCATOR;
	if (is_one_of(function, length, clearing, COUNT(clearing)))
		return TOUCHER_CLEARS;
	if (is_one_of(function, length, initialising, COUNT(initialising)))
		return TOUCHER_INITS;
	if (is_one_of(function, length, looking, COUNT(looking)))
		return TOUCHER_LOOKS;
	for (size_t i = 0; i < COUNT(allocating_families); i++)
		if (!strncmp(function, allocating_families[i], strlen(allocating_families[i])))
			return TOUCHER_ALLOCATOR;
	return TOUCHER_OTHER;
}

static __u64 object_of(const struct watch_freed *freed, const struct watch_slab *slab)
{
	__u64 number = (freed->address - slab->begin) / freed->size;

	return slab->begin + number * freed->size + freed->red_left_pad;
}

bool watch_freed_owns(const struct watch_freed *freed, __u64 address)
{
	for (int i = 0; i < freed->slab_count; i++) {
		const struct watch_slab *slab = &freed->slabs[i];

		if (address < slab->begin || address - slab->begin >= slab->bytes ||
		    (address - slab->begin) / freed->size != (freed->address - slab->begin) / freed->size)
			return false;
	}
	return freed->slab_count > 0;
}

/* freelist_ptr_decode() of mm/slub.c: since 5.7 with the bytes of the link's address swapped. */
bool watch_freed_is_link(const struct watch_freed *freed, const struct watch_slab *slab, __u64 word)
{
	__u64 at = object_of(freed, slab) + freed->link, next = word ^ freed->random ^ __builtin_bswap64(at);

	if (!next)
		return true;
	next -= slab->begin + freed->red_left_pad;
	return next < slab->bytes && next % freed->size == 0;
}

static int read_link(const struct watch_freed *freed, const struct lock_names *names, const struct watch_slab *slab,
		     __u64 *word)
{
	return resolver_read(&names->resolver, object_of(freed, slab) + freed->link, word, sizeof(*word));
}

static bool read_member(const struct lock_names *names, __u64 cache, const char *member, void *out, size_t size)
{
	__u32 type = types_struct(names->types, "kmem_cache"), offset, ignored;

	return type && types_member(names->types, type, member, &offset, &ignored) &&
	       !resolver_read(&names->resolver, cache + offset, out, size);
}

static void add_slab(struct watch_freed *freed, __u64 begin, __u64 bytes)
{
	for (int i = 0; i < freed->slab_count; i++)
		if (freed->slabs[i].begin == begin)
			return;
	freed->slabs[freed->slab_count++] = (struct watch_slab){.begin = begin, .bytes = bytes};
}

/* begin: of the slab, 0 if that is not told. */
static int find_cache(const struct lock_names *names, __u64 address, struct slab_cache *cache, __u64 *begin)
{
	*begin = 0;
	if (!resolver_slab(&names->resolver, address, cache))
		return 0;
	return slab_pages_find(&names->slab_pages, &names->resolver, address, cache, begin);
}

/* Of its own objects, and of tasks in which it allocates, the allocator uses members also while they live. */
bool watch_freed_is_allocators(const char *cache, const char *type)
{
	static const char *const used[] = {"kmem_cache", "kmem_cache_node", "node_barn", "slab_sheaf", "task_struct"};

	for (size_t i = 0; i < COUNT(used); i++)
		if (!strcmp(cache, used[i]) || !strcmp(type, used[i]))
			return true;
	return false;
}

static void find_slabs(struct watch_freed *freed, const struct lock_names *names)
{
	__u64 address = freed->address, begin;
	struct slab_cache cache;

	if (find_cache(names, address, &cache, &begin))
		return;
	freed->cache = cache.cache;
	freed->size = cache.size;
	freed->red_left_pad = cache.red_left_pad;
	freed->of_allocator |= watch_freed_is_allocators(cache.name, "");
	if (!cache.size || cache.order > 20 || cache.min_order > cache.order)
		return;
	if (begin) {
		add_slab(freed, begin, (__u64)names->page_size << cache.order);
		return;
	}
	/* Slabs are naturally aligned; the larger first, so that of two with one begin it stays. */
	for (int i = 0; i < 2; i++) {
		__u64 bytes = (__u64)names->page_size << (i ? cache.min_order : cache.order);

		add_slab(freed, address & ~(bytes - 1), bytes);
	}
}

void watch_freed_open(struct watch_freed *freed, const struct lock_names *names, __u64 address, const char *type,
		      bool is_lock)
{
	__s64 typesafe_bit = 0;
	__u64 flags = 0, constructor = 0, typesafe = SLAB_TYPESAFE_BY_RCU;

	*freed = (struct watch_freed){
		.address = address, .is_lock = is_lock, .of_allocator = watch_freed_is_allocators("", type)};
	find_slabs(freed, names);
	if (!freed->slab_count || !names->types)
		return;
	if (types_enumerator(names->types, "_slab_flag_bits", "_SLAB_TYPESAFE_BY_RCU", &typesafe_bit) &&
	    typesafe_bit >= 0 && typesafe_bit < 32)
		typesafe = 1ull << typesafe_bit;
	if (read_member(names, freed->cache, "flags", &flags, sizeof(__u32)) && flags & typesafe)
		freed->stays_of_type = true;
	if (read_member(names, freed->cache, "ctor", &constructor, sizeof(constructor)) && constructor)
		freed->stays_of_type = true;
	/* Links that are not mixed with anything are pointers as others are. */
	freed->can_read_links = read_member(names, freed->cache, "random", &freed->random, sizeof(freed->random)) &&
				freed->random &&
				read_member(names, freed->cache, "offset", &freed->link, sizeof(freed->link)) &&
				freed->link + freed->red_left_pad + sizeof(__u64) <= freed->size;
	for (int i = 0; freed->can_read_links && i < freed->slab_count; i++)
		freed->can_read_links = !read_link(freed, names, &freed->slabs[i], &freed->slabs[i].link);
}

const char *watch_freed_by_access(const struct watch_freed *freed, const struct watch_access *access, __u8 told)
{
	__u64 line = freed->address & ~(CACHE_LINE - 1ull), at = line + access->offset;

	if (access->toucher == TOUCHER_ALLOCATOR && !freed->of_allocator && watch_freed_owns(freed, at))
		return "the object is gone: the allocator touched it, so it was freed or used again";
	/* Nobody clears a lock that is in use; what is initialised as one is one. */
	if (access->toucher != TOUCHER_INITS && (access->toucher != TOUCHER_CLEARS || !freed->is_lock))
		return NULL;
	if (!(told & ACCESS_WRITE) || (at ^ freed->address) & ~7ull ||
	    (access->placed && at >= freed->address + LOCK_BYTES))
		return NULL;
	return "the object is gone: its lock was cleared or initialised, as that of a new one is";
}

const char *watch_freed_by_reading(const struct watch_freed *freed, const struct lock_names *names)
{
	struct slab_cache cache;
	__u64 begin, word;

	if (freed->cache && (find_cache(names, freed->address, &cache, &begin) || cache.cache != freed->cache))
		return "the object is gone or another one now";
	for (int i = 0; freed->can_read_links && i < freed->slab_count; i++) {
		const struct watch_slab *slab = &freed->slabs[i];

		/* An object in use may still have the link of when it was free: that is known from the begin. */
		if (!read_link(freed, names, slab, &word) && word != slab->link &&
		    watch_freed_is_link(freed, slab, word))
			return "the object is gone: it is, or was, on its slab's list of free objects";
	}
	return NULL;
}
