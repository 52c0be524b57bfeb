/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory of a JVM that a test makes up: what is in it is put there piece by piece. */
#ifndef LOCKLINE_HOTSPOT_IMAGE_H
#define LOCKLINE_HOTSPOT_IMAGE_H

#include <errno.h>
#include <string.h>

#include "hotspot/hotspot_layout.h"

#define BASE   0x7f0000000000ull
#define BYTES  (256u << 10)
#define STRIDE 48

static __u8 image[BYTES];
static __u64 used;
static __u64 addresses[HOTSPOT_SYMBOLS];
static struct target_memory memory;

static inline int fetch(void *context, __u64 address, __u8 *out)
{
	if (address < BASE || address - BASE > BYTES - TARGET_PAGE)
		return -EFAULT;
	memcpy(out, image + (address - BASE), TARGET_PAGE);
	return 0;
}

static inline __u64 room(__u64 bytes)
{
	const __u64 at = BASE + used;

	used += (bytes + 15) & ~15ull;
	return at;
}

static inline void set(__u64 address, __u64 size, __u64 value)
{
	memcpy(image + (address - BASE), &value, size);
}

static inline __u64 text(const char *string)
{
	const __u64 at = room(strlen(string) + 1);

	strcpy((char *)image + (at - BASE), string);
	return at;
}

static inline __u64 word(__u64 value)
{
	const __u64 at = room(8);

	set(at, 8, value);
	return at;
}

struct row {
	const char *type, *field;
	__u64 offset, address;
};

static inline __u64 put_rows(const struct row *rows, int count)
{
	const __u64 at = room((count + 1) * STRIDE);

	for (int i = 0; i < count; i++) {
		set(at + i * STRIDE, 8, text(rows[i].type));
		set(at + i * STRIDE + 8, 8, text(rows[i].field));
		set(at + i * STRIDE + 32, 8, rows[i].offset);
		set(at + i * STRIDE + 40, 8, rows[i].address);
	}
	return at;
}

static inline __u64 put_named(const char *const *names, const __u64 *values, int count)
{
	const __u64 at = room((count + 1) * 16);

	for (int i = 0; i < count; i++) {
		set(at + i * 16, 8, text(names[i]));
		set(at + i * 16 + 8, 8, values[i]);
	}
	return at;
}

/* The tables' own symbols. */
static inline void put_tables_at(__u64 structs, __u64 types, __u64 constants)
{
	addresses[STRUCTS] = word(structs);
	addresses[STRUCT_STRIDE] = word(STRIDE);
	addresses[STRUCT_TYPE] = word(0);
	addresses[STRUCT_FIELD] = word(8);
	addresses[STRUCT_OFFSET] = word(32);
	addresses[STRUCT_ADDRESS] = word(40);
	addresses[TYPES] = word(types);
	addresses[TYPE_STRIDE] = addresses[CONSTANT_STRIDE] = word(16);
	addresses[TYPE_NAME] = addresses[CONSTANT_NAME] = word(0);
	addresses[TYPE_SIZE] = addresses[CONSTANT_VALUE] = word(8);
	addresses[CONSTANTS] = word(constants);
}

static inline __u64 put_symbol(const char *name)
{
	const __u64 at = room(6 + strlen(name));

	set(at + 4, 2, strlen(name));
	memcpy(image + (at + 6 - BASE), name, strlen(name));
	return at;
}

#endif /* LOCKLINE_HOTSPOT_IMAGE_H */
