// SPDX-License-Identifier: GPL-2.0-or-later
/* What tells that a watched object was freed, without a kernel. */
#include <errno.h>
#include <string.h>

#include "names/lock_types.h"
#include "watch/watch_freed.h"
#include "tap.h"

#define SLAB   0xffff888012340000ull
#define RANDOM 0x1badcafe7e57ab1eull
#define SIZE   192
#define LINK   96

/* A kernel of one slab cache, as the resolver would show it. */
static struct {
	__u64 cache;
	__u32 order, min_order;
	__u64 flags, constructor, random;
	__u32 link;
	__u64 words[8192 / 8];
	__u64 begin; /* what the table of pages says; 0: it cannot be read */
	bool kfunc;
} kernel;

static const char *const members[] = {"flags", "ctor", "random", "offset"};

int resolver_slab(const struct resolver *resolver, __u64 address, struct slab_cache *out)
{
	*out = (struct slab_cache){.cache = kernel.cache,
				   .size = SIZE,
				   .object_size = SIZE,
				   .order = kernel.order,
				   .min_order = kernel.min_order};
	return kernel.kfunc && kernel.cache ? 0 : -ENOENT;
}

int slab_pages_find(const struct slab_pages *pages, const struct resolver *resolver, __u64 address,
		    struct slab_cache *out, __u64 *slab)
{
	bool known = kernel.kfunc;
	int err;

	if (!kernel.begin)
		return -ENOSYS;
	kernel.kfunc = true;
	err = resolver_slab(resolver, address, out);
	kernel.kfunc = known;
	*slab = kernel.begin;
	return err;
}

int resolver_read(const struct resolver *resolver, __u64 address, void *out, size_t size)
{
	if (address >= SLAB && address < SLAB + sizeof(kernel.words)) {
		memcpy(out, (char *)kernel.words + (address - SLAB), size);
		return 0;
	}
	switch (address - kernel.cache) {
	case 0:
		memcpy(out, &kernel.flags, size);
		return 0;
	case 8:
		memcpy(out, &kernel.constructor, size);
		return 0;
	case 16:
		memcpy(out, &kernel.random, size);
		return 0;
	case 24:
		memcpy(out, &kernel.link, size);
		return 0;
	}
	return -EFAULT;
}

__u32 types_struct(const struct types *types, const char *name)
{
	return 1;
}

bool types_member(const struct types *types, __u32 type, const char *member, __u32 *offset, __u32 *member_type)
{
	for (__u32 i = 0; i < 4; i++)
		if (!strcmp(members[i], member))
			*offset = 8 * i;
	return true;
}

bool types_enumerator(const struct types *types, const char *type, const char *enumerator, __s64 *value)
{
	return false;
}

static const struct lock_names names = {.types = (void *)&names, .page_size = 4096};

/* The third object of the slab, with a lock at 8. */
static const __u64 target = SLAB + 2 * SIZE + 8;

static void reset(__u32 order, __u32 min_order)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.cache = 0xffff888000001000ull;
	kernel.order = order;
	kernel.min_order = min_order;
	kernel.random = RANDOM;
	kernel.link = LINK;
	kernel.kfunc = true;
}

static void free_object(__u64 object, __u64 next)
{
	kernel.words[(object + LINK - SLAB) / 8] = next ^ RANDOM ^ __builtin_bswap64(object + LINK);
}

static const char *access_at(const struct watch_freed *freed, enum watch_toucher toucher, int offset, __u8 access)
{
	const struct watch_access seen = {.toucher = toucher, .offset = offset, .access = access, .placed = true};

	return watch_freed_by_access(freed, &seen, access);
}

static void functions_of_the_allocator(void)
{
	static const char *const yes[] = {"kfree",
					  "kmem_cache_free",
					  "kmem_cache_alloc_noprof",
					  "__slab_free",
					  "__kmalloc_cache_noprof",
					  "___slab_alloc",
					  "__slab_alloc.isra.0",
					  "__kmem_cache_free_bulk.part.0",
					  "kmem_cache_alloc_lru",
					  "kmalloc_trace"};
	static const char *const no[] = {"kfree_skb_reason",
					 "kfree_link",
					 "kvfree_call_rcu",
					 "krealloc_noprof",
					 "kmem_cache_create",
					 "ksize",
					 "check_object",
					 "",
					 "kmalloc_reserve",
					 "_raw_spin_lock",
					 "kfre",
					 "memcpy"};
	static const char *const clears[] = {"memset", "memset_orig", "__memset", "__pi_memset"};
	static const char *const inits[] = {"__mutex_init", "__init_waitqueue_head", "__init_rwsem"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		CHECK(watch_toucher(yes[i]) == TOUCHER_ALLOCATOR, "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		CHECK(watch_toucher(no[i]) == TOUCHER_OTHER, "%s", no[i]);
	for (size_t i = 0; i < sizeof(clears) / sizeof(*clears); i++)
		CHECK(watch_toucher(clears[i]) == TOUCHER_CLEARS, "%s", clears[i]);
	for (size_t i = 0; i < sizeof(inits) / sizeof(*inits); i++)
		CHECK(watch_toucher(inits[i]) == TOUCHER_INITS, "%s", inits[i]);
	CHECK(watch_toucher("copy_from_kernel_nofault") == TOUCHER_LOOKS, "as we read");
}

/* 2 * 192 is a line's begin; the next object begins with the line after the next. */
static void neighbours_of_the_same_line(void)
{
	struct watch_freed freed;

	reset(0, 0);
	watch_freed_open(&freed, &names, SLAB + SIZE + 8, "", false);
	CHECK(watch_freed_owns(&freed, SLAB + SIZE), "its first byte");
	CHECK(watch_freed_owns(&freed, SLAB + 2 * SIZE - 1), "its last byte");
	CHECK(!watch_freed_owns(&freed, SLAB + SIZE - 1), "the one before");
	CHECK(!watch_freed_owns(&freed, SLAB + 2 * SIZE), "the one behind");
	CHECK(!watch_freed_owns(&freed, SLAB - 8), "another slab");
	CHECK(access_at(&freed, TOUCHER_ALLOCATOR, 0, ACCESS_WRITE), "the allocator, in the object");
	CHECK(!access_at(&freed, TOUCHER_OTHER, 0, ACCESS_WRITE), "somebody else");
	freed.of_allocator = true;
	CHECK(!access_at(&freed, TOUCHER_ALLOCATOR, 0, ACCESS_WRITE), "its own object, in use");
	CHECK(watch_freed_is_allocators("kmem_cache_node", "") && watch_freed_is_allocators("kmalloc-256", "node_barn"),
	      "objects that it uses");
	CHECK(!watch_freed_is_allocators("kmalloc-256", "pipe_inode_info"), "one that it does not");
}

/* A slab of one page or of two: in the second page the objects lie elsewhere. */
static void where_the_slab_begins_is_not_known(void)
{
	const __u64 second = SLAB + 4096 + 8;
	struct watch_freed freed;

	reset(1, 0);
	watch_freed_open(&freed, &names, second, "", false);
	CHECK(freed.slab_count == 2, "%d", freed.slab_count);
	CHECK(watch_freed_owns(&freed, second), "itself");
	/* By a slab of one page objects begin at 4096, by one of two at 4032 and 4224. */
	CHECK(!watch_freed_owns(&freed, second + 128), "one of them says that this is another");
	CHECK(watch_freed_owns(&freed, second + 127 - 8), "none does");
	watch_freed_open(&freed, &names, target, "", false);
	CHECK(freed.slab_count == 1 && freed.slabs[0].bytes == 8192, "both begin there");
	kernel.kfunc = false;
	kernel.begin = SLAB;
	watch_freed_open(&freed, &names, second, "", false);
	CHECK(freed.slab_count == 1 && freed.slabs[0].begin == SLAB, "the table of pages tells");
	kernel.begin = 0;
	watch_freed_open(&freed, &names, second, "", false);
	CHECK(!freed.slab_count && !freed.cache, "neither");
	CHECK(!watch_freed_owns(&freed, second), "nothing is known of it");
	CHECK(!watch_freed_by_reading(&freed, &names), "likewise");
}

static void a_lock_is_not_cleared_while_it_is_used(void)
{
	struct watch_freed freed;

	reset(0, 0);
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(access_at(&freed, TOUCHER_CLEARS, 8, ACCESS_WRITE), "at the lock");
	CHECK(!access_at(&freed, TOUCHER_CLEARS, 8, ACCESS_READ), "read");
	CHECK(!access_at(&freed, TOUCHER_CLEARS, 12, ACCESS_WRITE), "behind the word");
	CHECK(!access_at(&freed, TOUCHER_CLEARS, 16, ACCESS_WRITE), "elsewhere");
	watch_freed_open(&freed, &names, target, "", false);
	CHECK(!access_at(&freed, TOUCHER_CLEARS, 8, ACCESS_WRITE), "that is no lock");
	CHECK(access_at(&freed, TOUCHER_INITS, 8, ACCESS_WRITE), "it is one");
	CHECK(!access_at(&freed, TOUCHER_INITS, 24, ACCESS_WRITE), "one beside it");
}

static void the_link_of_a_free_object(void)
{
	const __u64 object = SLAB + 2 * SIZE;
	struct watch_freed freed;
	const char *why;

	reset(0, 0);
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(freed.can_read_links, "mixed with a random number");
	CHECK(!watch_freed_by_reading(&freed, &names), "in use");
	kernel.words[(object + LINK - SLAB) / 8] = SLAB;
	CHECK(!watch_freed_by_reading(&freed, &names), "a pointer of its own");
	free_object(object, SLAB + 5 * SIZE + 8);
	CHECK(!watch_freed_by_reading(&freed, &names), "no object begins there");
	free_object(object, SLAB + 8192);
	CHECK(!watch_freed_by_reading(&freed, &names), "that is another slab's");
	free_object(object, SLAB + 5 * SIZE);
	why = watch_freed_by_reading(&freed, &names);
	CHECK(why && strstr(why, "free objects"), "%s", why ?: "nothing");
	free_object(object, 0);
	CHECK(watch_freed_by_reading(&freed, &names), "the last of the list");
	/* Who was given an object with its link still in it had that from the begin. */
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(!watch_freed_by_reading(&freed, &names), "as it was");
	free_object(object, SLAB);
	CHECK(watch_freed_by_reading(&freed, &names), "another link");
}

static void links_that_cannot_be_told(void)
{
	struct watch_freed freed;

	reset(0, 0);
	kernel.random = 0;
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(!freed.can_read_links, "plain pointers");
	reset(0, 0);
	kernel.link = SIZE;
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(!freed.can_read_links, "beyond the object");
}

static void another_cache(void)
{
	struct watch_freed freed;

	reset(0, 0);
	watch_freed_open(&freed, &names, target, "", true);
	kernel.cache += 0x100;
	CHECK(watch_freed_by_reading(&freed, &names), "another cache");
	kernel.cache = 0;
	CHECK(watch_freed_by_reading(&freed, &names), "none");
}

static void objects_that_stay_of_their_type(void)
{
	struct watch_freed freed;

	reset(0, 0);
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(!freed.stays_of_type, "kmalloc");
	kernel.flags = 0x00080000;
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(freed.stays_of_type, "SLAB_TYPESAFE_BY_RCU");
	kernel.flags = 0;
	kernel.constructor = 0xffffffff81000000ull;
	watch_freed_open(&freed, &names, target, "", true);
	CHECK(freed.stays_of_type, "a constructor");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(functions_of_the_allocator),
		TEST(neighbours_of_the_same_line),
		TEST(where_the_slab_begins_is_not_known),
		TEST(a_lock_is_not_cleared_while_it_is_used),
		TEST(the_link_of_a_free_object),
		TEST(links_that_cannot_be_told),
		TEST(another_cache),
		TEST(objects_that_stay_of_their_type),
	};

	return RUN_TESTS(tests);
}
