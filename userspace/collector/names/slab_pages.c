// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "names/btf_members.h"
#include "names/symbols.h"
#include "names/resolver.h"
#include "names/slab_pages.h"

#define PAGE_BYTES_MOST 128

static bool find_offset(const struct types *types, const char *type, const char *member, __u32 *offset)
{
	__u32 id = types_struct(types, type), ignored;

	return id && types_member(types, id, member, offset, &ignored);
}

/* A flag until 6.9; since 6.12 the highest byte of a type; in between the answer is left open. */
static bool find_page_type(struct slab_pages *pages, const struct types *types)
{
	__s64 value;

	if (types_enumerator(types, "pagetype", "PGTY_slab", &value)) {
		pages->type_bits = 24;
		pages->type_mask = 0xff;
		pages->type_value = value;
		return find_offset(types, "page", "page_type", &pages->type);
	}
	if (!types_enumerator(types, "pageflags", "PG_slab", &value) || value < 0 || value >= 32)
		return false;
	pages->type_bits = value;
	pages->type_mask = 1;
	pages->type_value = 1;
	return find_offset(types, "page", "flags", &pages->type);
}

static bool find_offsets(struct slab_pages *pages, const struct types *types)
{
	__u32 page = types_struct(types, "page");

	pages->page_bytes = page ? types_size(types, page) : 0;
	pages->has_red_left_pad = find_offset(types, "kmem_cache", "red_left_pad", &pages->red_left_pad);
	return pages->page_bytes && pages->page_bytes <= PAGE_BYTES_MOST && find_page_type(pages, types) &&
	       find_offset(types, "page", "compound_head", &pages->compound_head) &&
	       find_offset(types, "slab", "slab_cache", &pages->slab_cache) &&
	       find_offset(types, "kmem_cache", "size", &pages->size) &&
	       find_offset(types, "kmem_cache", "object_size", &pages->object_size) &&
	       find_offset(types, "kmem_cache", "oo", &pages->oo) &&
	       find_offset(types, "kmem_cache", "min", &pages->min) &&
	       find_offset(types, "kmem_cache", "refcount", &pages->references) &&
	       find_offset(types, "kmem_cache", "name", &pages->name) && pages->name + sizeof(__u64) <= RESOLVE_BYTES;
}

static __u32 word(const __u8 *bytes, __u32 offset)
{
	__u32 value;

	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

static __u64 long_word(const __u8 *bytes, __u32 offset)
{
	__u64 value;

	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

static int read_cache(const struct slab_pages *pages, const struct resolver *resolver, __u64 address,
		      struct slab_cache *out)
{
	__u8 bytes[RESOLVE_BYTES];
	int err;

	/* The name is the last of the members read; what follows may be another object's. */
	err = resolver_read(resolver, address, bytes, pages->name + sizeof(__u64));
	if (err)
		return err;
	*out = (struct slab_cache){
		.cache = address,
		.size = word(bytes, pages->size),
		.object_size = word(bytes, pages->object_size),
		.order = word(bytes, pages->oo) >> 16,
		.min_order = word(bytes, pages->min) >> 16,
		.references = word(bytes, pages->references),
		.red_left_pad = pages->has_red_left_pad ? word(bytes, pages->red_left_pad) : 0,
	};
	err = resolver_read(resolver, long_word(bytes, pages->name), out->name, sizeof(out->name));
	out->name[sizeof(out->name) - 1] = 0;
	return err;
}

int slab_pages_find(const struct slab_pages *pages, const struct resolver *resolver, __u64 address,
		    struct slab_cache *out, __u64 *slab)
{
	__u8 bytes[PAGE_BYTES_MOST];
	__u64 page, head;
	int err;

	if (!pages->pages)
		return -ENOSYS;
	if (address < pages->memory || address >= pages->memory_end)
		return -ENOENT;
	page = pages->pages + (address - pages->memory) / pages->page_size * pages->page_bytes;
	err = resolver_read(resolver, page, bytes, pages->page_bytes);
	if (err)
		return -ENOENT;
	head = long_word(bytes, pages->compound_head);
	if (head & 1) {
		page = head - 1;
		if (page < pages->pages || resolver_read(resolver, page, bytes, pages->page_bytes))
			return -ENOENT;
	}
	if ((word(bytes, pages->type) >> pages->type_bits & pages->type_mask) != pages->type_value)
		return -ENOENT;
	*slab = pages->memory + (page - pages->pages) / pages->page_bytes * pages->page_size;
	return read_cache(pages, resolver, long_word(bytes, pages->slab_cache), out) ? -ENOENT : 0;
}

static bool find_by_variables(struct slab_pages *pages, const struct resolver *resolver, const struct symbols *symbols)
{
	__u64 table, memory;

	if (symbols_address(symbols, "vmemmap_base", &table) || symbols_address(symbols, "page_offset_base", &memory) ||
	    resolver_read(resolver, memory, &pages->memory, sizeof(pages->memory)) ||
	    resolver_read(resolver, table, &pages->pages, sizeof(pages->pages)))
		return false;
	/* The table follows the direct map and the vmalloc area. */
	pages->memory_end = pages->pages;
	return true;
}

static bool is_object_of(const struct slab_pages *pages, const struct resolver *resolver, __u64 address,
			 const char *cache)
{
	struct slab_cache found;
	__u64 slab;

	return !slab_pages_find(pages, resolver, address, &found, &slab) && !strcmp(found.name, cache) && found.size &&
	       (address - slab) % found.size == found.red_left_pad;
}

/* arch/arm64/include/asm/memory.h: constants of the build, from CONFIG_ARM64_VA_BITS. */
static void guess_arm64(struct slab_pages *pages, unsigned int bits, bool since_6_9)
{
	unsigned int bits_at_least = bits < 48 ? bits : 48;
	__u64 page_room = 1;

	while (page_room < pages->page_bytes)
		page_room *= 2;
	pages->memory = -(1ull << bits);
	pages->memory_end = -(1ull << (bits_at_least - 1));
	if (since_6_9) /* 32697ff38287 */
		pages->pages =
			-(1ull << 30) - (pages->memory_end - pages->memory) / pages->page_size * pages->page_bytes;
	else
		pages->pages = -((1ull << bits) / pages->page_size * page_room);
}

/* The right guess leads from the caller's task and memory to their caches, which are never merged with others. */
static bool find_by_guess(struct slab_pages *pages, const struct resolver *resolver, const struct types *types)
{
	static const unsigned int address_bits[] = {48, 52, 39, 42, 47, 36};
	__u64 task, mm;
	__u32 offset;

	if (!find_offset(types, "task_struct", "mm", &offset) || resolver_task(resolver, &task) ||
	    resolver_read(resolver, task + offset, &mm, sizeof(mm)))
		return false;
	for (size_t i = 0; i < 2 * sizeof(address_bits) / sizeof(*address_bits); i++) {
		guess_arm64(pages, address_bits[i / 2], i % 2 == 0);
		if (is_object_of(pages, resolver, task, "task_struct") &&
		    is_object_of(pages, resolver, mm, "mm_struct"))
			return true;
	}
	return false;
}

void slab_pages_open(struct slab_pages *pages, const struct resolver *resolver, const struct symbols *symbols,
		     const struct types *types)
{
	*pages = (struct slab_pages){.page_size = sysconf(_SC_PAGESIZE)};
	if (types && find_offsets(pages, types) && !find_by_variables(pages, resolver, symbols) &&
	    !find_by_guess(pages, resolver, types))
		pages->pages = 0;
}
