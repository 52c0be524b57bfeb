// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/small_file.h"
#include "bpf/lockline.h"
#include "bpf/resolve.h"
#include "futex/futex_bucket.h"

/* FUT_OFF_INODE and FUT_OFF_MMSHARED: in the offset of a shared futex's key. */
#define OFFSET_OF_INODE 1
#define OFFSET_OF_MM    2

static __u32 rotate(__u32 word, int bits)
{
	return word << bits | word >> (32 - bits);
}

/* Bob Jenkins' lookup3 of words. */
__u32 futex_hash(const __u32 *words, __u32 count, __u32 first)
{
	static const __u8 mix[] = {4, 6, 8, 16, 19, 4}, last[] = {14, 11, 25, 16, 4, 14, 24};
	__u32 v[3];

	v[0] = v[1] = v[2] = 0xdeadbeef + count * 4 + first;
	for (; count > 3; count -= 3, words += 3) {
		for (int i = 0; i < 3; i++)
			v[i] += words[i];
		for (int i = 0; i < 6; i++) {
			__u32 *a = &v[i % 3], *b = &v[(i + 1) % 3], *c = &v[(i + 2) % 3];

			*a -= *c;
			*a ^= rotate(*c, mix[i]);
			*c += *b;
		}
	}
	for (__u32 i = 0; i < count; i++)
		v[i] += words[i];
	for (int i = 0; count && i < 7; i++) {
		__u32 *c = &v[(i + 2) % 3];
		const __u32 *b = &v[(i + 1) % 3];

		*c ^= *b;
		*c -= rotate(*b, last[i]);
	}
	return v[2];
}

static int read_pointer(const struct lock_names *names, __u64 address, __u64 *out)
{
	return resolver_read(&names->resolver, address, out, sizeof(*out));
}

/* Where the mm_struct points to the hash of its own: futex_phash of 6.16, futex.phash.hash of 7.2. */
static bool own_hash_offset(const struct types *types, __u32 mm, __u32 *offset)
{
	static const char *const path[] = {"futex", "phash", "hash"};
	__u32 type = mm, member;

	if (types_member(types, mm, "futex_phash", offset, &member))
		return true;
	*offset = 0;
	for (int i = 0; i < 3; i++) {
		__u32 at;

		if (!types_member(types, types_resolve(types, type), path[i], &at, &type))
			return false;
		*offset += at;
	}
	return true;
}

/* kernel/futex/core.c, __futex_hash_private(): by the address alone. */
static int find_own(const struct lock_names *names, __u64 hash, const __u32 page[2], __u32 offset, __u32 size,
		    __u64 *bucket)
{
	__u32 type = types_struct(names->types, "futex_private_hash"), mask_at, queues_at, member, mask;
	int err;

	if (!types_member(names->types, type, "hash_mask", &mask_at, &member) ||
	    !types_member(names->types, type, "queues", &queues_at, &member))
		return -EOPNOTSUPP;
	err = resolver_read(&names->resolver, hash + mask_at, &mask, sizeof(mask));
	/* Without: prctl(PR_FUTEX_HASH) has turned it off. */
	if (err || !mask || mask & (mask + 1))
		return err ?: -EOPNOTSUPP;
	*bucket = hash + queues_at + (__u64)(futex_hash(page, 2, offset) & mask) * size;
	return 0;
}

/* The hash of all processes; since 6.16 each node has its part. */
struct table {
	__u64 queues; /* address of the pointers by node; 0: there is one part, at first */
	__u64 first;
	__u64 mask;
	__u32 shift;
};

static bool is_mask(__u64 mask)
{
	return mask >= 0xff && !(mask & (mask + 1)) && mask < 1u << 26;
}

/* __futex_data since 6.16: hashmask, hashshift, queues[]. */
static bool read_new(const struct lock_names *names, __u64 data, struct table *out)
{
	struct {
		__u64 mask;
		__u32 shift, pad;
		__u64 first;
	} found;

	if (resolver_read(&names->resolver, data, &found, sizeof(found)) || !is_mask(found.mask) ||
	    1ull << (found.shift & 63) != found.mask + 1 || !(found.first >> 63) || found.first % CACHE_LINE)
		return false;
	*out = (struct table){data + offsetof(typeof(found), first), found.first, found.mask, found.shift};
	return true;
}

/* Before: queues, hashsize. */
static bool read_old(const struct lock_names *names, __u64 data, struct table *out)
{
	struct {
		__u64 first, buckets;
	} found;

	if (resolver_read(&names->resolver, data, &found, sizeof(found)) || !(found.first >> 63) || !found.buckets ||
	    !is_mask(found.buckets - 1))
		return false;
	*out = (struct table){.first = found.first, .mask = found.buckets - 1};
	return true;
}

/*
 * Without a symbol: what __futex_hash() reads, by its code.  Each four bytes may be the distance to a variable from the
 * instruction's end, or the address of the array; mask, shift and pointer have to fit together there.
 */
static bool find_by_code(const struct lock_names *names, struct table *out)
{
	__u8 code[RESOLVE_BYTES];
	__u64 function;

#ifndef __x86_64__
	return false;
#endif
	if (symbols_address(names->symbols, "__futex_hash", &function) ||
	    resolver_read(&names->resolver, function, code, sizeof(code)))
		return false;
	for (size_t i = 0; i + sizeof(__s32) <= sizeof(code); i++) {
		__u64 near, far;
		__s32 value;

		memcpy(&value, code + i, sizeof(value));
		near = function + i + sizeof(value) + value;
		far = (__s64)value - 2 * (__s64)sizeof(__u64);
		if (near % sizeof(__u64) == 0 && read_new(names, near, out))
			return true;
		if (far >> 63 && far % sizeof(__u64) == 0 && read_new(names, far, out))
			return true;
	}
	return false;
}

/* Nodes that can be, 0 to the last; 0: some number among them is missing. */
static __u32 possible_nodes(void)
{
	char text[256];
	unsigned int last = 0;

	if (first_line("/sys/devices/system/node/possible", text, sizeof(text)) || !strcmp(text, "0"))
		return 1;
	return sscanf(text, "0-%u", &last) == 1 && !strchr(text, ',') ? last + 1 : 0;
}

/* kernel/futex/core.c, futex_hash(): key: of struct futex_key, up to its offset. */
static int find_shared(const struct lock_names *names, const __u64 key[2], __u32 offset, __u32 size, __u64 *bucket)
{
	const __u32 hash = futex_hash((const __u32 *)key, 4, offset), nodes = possible_nodes();
	struct table table;
	__u64 data;
	int err = symbols_address(names->symbols, "__futex_data", &data);

	if (err ? !find_by_code(names, &table) : !read_new(names, data, &table) && !read_old(names, data, &table))
		return -EOPNOTSUPP;
	err = 0;
	if (table.queues && nodes != 1) {
		if (!nodes)
			return -EOPNOTSUPP;
		err = read_pointer(names, table.queues + (hash >> table.shift) % nodes * sizeof(__u64), &table.first);
	}
	*bucket = table.first + (hash & table.mask) * size;
	return err;
}

int futex_bucket_sequence(const struct lock_names *names, __u64 task, int fd, __u64 *sequence)
{
	static const struct {
		const char *type, *member;
	} path[] = {{"task_struct", "files"}, {"files_struct", "fdt"}, {"fdtable", "fd"}, {"file", "f_inode"}};
	const struct types *types = names->types;
	__u32 at, member;
	__u64 object = task;
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(path) / sizeof(path[0]); i++) {
		if (!types || !types_member(types, types_struct(types, path[i].type), path[i].member, &at, &member))
			return -EOPNOTSUPP;
		err = read_pointer(names, object + at, &object);
		if (!err && !strcmp(path[i].member, "fd"))
			err = read_pointer(names, object + fd * sizeof(__u64), &object);
	}
	if (!err && !types_member(types, types_struct(types, "inode"), "i_sequence", &at, &member))
		return -EOPNOTSUPP;
	err = err ?: read_pointer(names, object + at, sequence);
	return err ?: *sequence ? 0 : -ENOENT;
}

int futex_bucket_find(const struct lock_names *names, __u64 task, __u64 address, const struct futex_shared *shared,
		      __u64 *bucket, bool *own)
{
	const struct types *types = names->types;
	__u32 offset = address % names->page_size, mm_at, hash_at, member, mm_type;
	__u64 page = address - offset, key[2] = {0, page}, mm, hash;
	const __u32 words[2] = {page, page >> 32};
	__s64 size;
	int err;

	*own = false;
	if (!types || !types_member(types, types_struct(types, "task_struct"), "mm", &mm_at, &member))
		return -EOPNOTSUPP;
	mm_type = types_struct(types, "mm_struct");
	size = types_size(types, types_struct(types, "futex_hash_bucket"));
	if (!mm_type || size <= 0)
		return -EOPNOTSUPP;
	err = read_pointer(names, task + mm_at, &mm);
	/* A kernel thread has none, nor has a process that ends. */
	if (err || !mm)
		return err ?: -ESRCH;
	key[0] = mm;
	if (shared->sequence) {
		key[0] = shared->sequence;
		key[1] = shared->page;
	}
	if (shared->shared)
		return find_shared(names, key, offset | (shared->sequence ? OFFSET_OF_INODE : OFFSET_OF_MM), size,
				   bucket);
	if (!own_hash_offset(types, mm_type, &hash_at))
		return find_shared(names, key, offset, size, bucket);
	err = read_pointer(names, mm + hash_at, &hash);
	if (err)
		return err;
	/* A process gets a hash of its own with its second thread. */
	if (!hash)
		return find_shared(names, key, offset, size, bucket);
	*own = true;
	return find_own(names, hash, words, offset, size, bucket);
}
