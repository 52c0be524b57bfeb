// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <unistd.h>

#include "futex/futex_bucket.h"

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

/* kernel/futex/core.c before 6.16, futex_hash(): by mm_struct and address, in the hash of all processes. */
static int find_shared(const struct lock_names *names, __u64 mm, __u64 page, __u32 offset, __u32 size, __u64 *bucket)
{
	const __u64 key[2] = {mm, page};
	__u64 data, queues, buckets;
	int err = symbols_address(names->symbols, "__futex_data", &data);

	if (err)
		return -EOPNOTSUPP;
	err = read_pointer(names, data, &queues);
	err = err ?: read_pointer(names, data + sizeof(queues), &buckets);
	if (err || !(queues >> 63) || !buckets || buckets >> 32 || buckets & (buckets - 1))
		return err ?: -EOPNOTSUPP;
	*bucket = queues + (futex_hash((const __u32 *)key, 4, offset) & (buckets - 1)) * size;
	return 0;
}

int futex_bucket_find(const struct lock_names *names, __u64 task, __u64 address, __u64 *bucket, bool *own)
{
	const struct types *types = names->types;
	__u32 offset = address % names->page_size, mm_at, hash_at, member, mm_type;
	__u64 page = address - offset, mm, hash;
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
	if (!own_hash_offset(types, mm_type, &hash_at))
		return find_shared(names, mm, page, offset, size, bucket);
	err = read_pointer(names, mm + hash_at, &hash);
	if (err || !hash)
		return err ?: -EOPNOTSUPP;
	*own = true;
	return find_own(names, hash, words, offset, size, bucket);
}
