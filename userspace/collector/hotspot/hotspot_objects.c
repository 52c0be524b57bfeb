// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "hotspot/hotspot_names.h"
#include "hotspot/hotspot_objects.h"

/* A class with more fields, or more classes above it, is none that is looked for. */
#define MOST_FIELDS  1024
#define MOST_CLASSES 64
#define MOST_SHIFT   16
#define TEXT         128
/* Where the class begins in the mark of a compact header. */
#define COMPACT_SHIFT 42
/* Since JDK 21 ZGC keeps an address so far to the left in a pointer of the heap's, before bits of its own. */
#define FIRST_COLOURED_SHIFT 13
#define LAST_COLOURED_SHIFT  16
/* A field of the old tables: six numbers of 2 bytes, the last two the offset with two bits behind it. */
#define FIELD_BYTES     12
#define FIELD_NAME      2
#define FIELD_SIGNATURE 4
#define FIELD_OFFSET    8
#define FIELD_TAG_BITS  2
/* Flags of a field in the stream: each is followed by a number of its own. */
#define HAS_VALUE     (1u << 0)
#define HAS_SIGNATURE (1u << 2)
#define HAS_GROUP     (1u << 4)

static int class_name(const struct hotspot_layout *layout, struct target_memory *memory, __u64 klass, char *out,
		      size_t size)
{
	__u64 symbol;
	int err = klass % sizeof(klass) ? -EINVAL : hotspot_member(layout, memory, klass, KLASS_NAME, &symbol);

	return err ?: hotspot_symbol_text(layout, memory, symbol, out, size);
}

/* What a number of 4 bytes stands for. */
static int widen(const struct hotspot_layout *layout, struct target_memory *memory, enum hotspot_field base,
		 enum hotspot_field shift, __u64 narrow, __u64 *out)
{
	__u64 bits;
	int err = hotspot_member(layout, memory, 0, base, out);

	err = err ?: hotspot_member(layout, memory, 0, shift, &bits);
	if (!err && (!narrow || bits > MOST_SHIFT))
		err = -EINVAL;
	*out = err ? 0 : *out + (narrow << bits);
	return err;
}

static int class_of(const struct hotspot_layout *layout, struct target_memory *memory, __u64 at,
		    enum hotspot_header header, __u64 *out)
{
	__u64 word;
	int err = target_word(memory, header == HEADER_COMPACT ? at : at + layout->fields[OOP_KLASS], &word);

	*out = word;
	if (err || header == HEADER_FULL)
		return err;
	word = header == HEADER_COMPACT ? word >> COMPACT_SHIFT : (__u32)word;
	return widen(layout, memory, NARROW_KLASS_BASE, NARROW_KLASS_SHIFT, word, out);
}

int hotspot_object_at(const struct hotspot_layout *layout, struct target_memory *memory, __u64 at,
		      struct hotspot_object *out, char *class, size_t size)
{
	static const enum hotspot_header headers[] = {HEADER_NARROW, HEADER_FULL, HEADER_COMPACT};
	int err = -ENODATA;

	if (!at || at % sizeof(at) || !hotspot_has(layout, OOP_KLASS))
		return -ENODATA;
	for (size_t i = 0; err && err != -E2BIG && i < sizeof(headers) / sizeof(headers[0]); i++) {
		*out = (struct hotspot_object){.at = at, .header = headers[i]};
		err = class_of(layout, memory, at, headers[i], &out->klass);
		err = err ?: class_name(layout, memory, out->klass, class, size);
	}
	return err;
}

/* The same by a pointer as the heap has it. */
static int object_by(const struct hotspot_layout *layout, struct target_memory *memory, __u64 pointer,
		     struct hotspot_object *out, char *class, size_t size)
{
	int err = hotspot_object_at(layout, memory, pointer, out, class, size);

	for (int shift = FIRST_COLOURED_SHIFT; err && err != -E2BIG && shift <= LAST_COLOURED_SHIFT; shift++)
		err = hotspot_object_at(layout, memory, pointer >> shift, out, class, size);
	return err;
}

int hotspot_object_of(const struct hotspot_layout *layout, struct target_memory *memory, __u64 handle,
		      struct hotspot_object *out, char *class, size_t size)
{
	__u64 at;
	int err = target_word(memory, handle, &at);

	err = err ?: object_by(layout, memory, at, out, class, size);
	return err ? hotspot_object_at(layout, memory, handle, out, class, size) : 0;
}

/* Whether a field of this class, whose texts are at these places of its constants, is the one that is looked for. */
static bool is_field(const struct hotspot_layout *layout, struct target_memory *memory, __u64 constants, __u32 name,
		     __u32 signature, const char *const *wanted)
{
	const __u32 places[] = {name, signature};
	char text[TEXT];

	for (int i = 0; i < 2; i++) {
		__u64 symbol;

		if (target_word(memory, constants + layout->sizes[SIZE_CONSTANT_POOL] + places[i] * sizeof(symbol),
				&symbol) ||
		    hotspot_symbol_text(layout, memory, symbol & ~1ull, text, sizeof(text)) || strcmp(text, wanted[i]))
			return false;
	}
	return true;
}

static int find_in_table(const struct hotspot_layout *layout, struct target_memory *memory, __u64 klass,
			 __u64 constants, const char *const *wanted, __u64 *out)
{
	__u64 table, count;
	int err = hotspot_member(layout, memory, klass, INSTANCE_FIELDS, &table);

	err = err ?: hotspot_member(layout, memory, klass, INSTANCE_FIELD_COUNT, &count);
	if (!err && !hotspot_has(layout, HALVES_DATA))
		err = -ENOENT;
	for (__u64 i = 0; !err && i < count && i < MOST_FIELDS; i++) {
		const __u64 at = table + layout->fields[HALVES_DATA] + i * FIELD_BYTES;
		__u64 name, signature, offset;

		err = target_number(memory, at + FIELD_NAME, 2, &name);
		err = err ?: target_number(memory, at + FIELD_SIGNATURE, 2, &signature);
		err = err ?: target_number(memory, at + FIELD_OFFSET, 4, &offset);
		if (err || !is_field(layout, memory, constants, name, signature, wanted))
			continue;
		*out = offset >> FIELD_TAG_BITS;
		return 0;
	}
	return err ?: -ENOENT;
}

static int find_in_stream(const struct hotspot_layout *layout, struct target_memory *memory, __u64 klass,
			  __u64 constants, const char *const *wanted, __u64 *out)
{
	__u32 count, injected, name, signature, offset, access, flags, further;
	__u64 at;
	int err = hotspot_member(layout, memory, klass, INSTANCE_FIELD_STREAM, &at);

	if (!err && !hotspot_has(layout, BYTES_DATA))
		err = -ENOENT;
	at += err ? 0 : layout->fields[BYTES_DATA];
	err = err ?: hotspot_unsigned5(memory, &at, 1, &count);
	err = err ?: hotspot_unsigned5(memory, &at, 1, &injected);
	for (__u32 i = 0; !err && i < count && i < MOST_FIELDS; i++) {
		err = hotspot_unsigned5(memory, &at, 1, &name);
		err = err ?: hotspot_unsigned5(memory, &at, 1, &signature);
		err = err ?: hotspot_unsigned5(memory, &at, 1, &offset);
		err = err ?: hotspot_unsigned5(memory, &at, 1, &access);
		err = err ?: hotspot_unsigned5(memory, &at, 1, &flags);
		for (__u32 has = err ? 0 : flags & (HAS_VALUE | HAS_SIGNATURE | HAS_GROUP); !err && has; has &= has - 1)
			err = hotspot_unsigned5(memory, &at, 1, &further);
		if (err || !is_field(layout, memory, constants, name, signature, wanted))
			continue;
		*out = offset;
		return 0;
	}
	return err ?: -ENOENT;
}

/* Where an object of this class, not of one above it, has a field. */
static int field_offset(const struct hotspot_layout *layout, struct target_memory *memory, __u64 klass,
			const char *name, const char *signature, __u64 *out)
{
	const char *const wanted[] = {name, signature};
	__u64 constants;
	int err = hotspot_member(layout, memory, klass, INSTANCE_CONSTANTS, &constants);

	if (err)
		return err;
	return hotspot_has(layout, INSTANCE_FIELD_STREAM)
		       ? find_in_stream(layout, memory, klass, constants, wanted, out)
		       : find_in_table(layout, memory, klass, constants, wanted, out);
}

/* The object that a field refers to: by 4 bytes or by 8, which its class tells. */
static int follow(const struct hotspot_layout *layout, struct target_memory *memory, __u64 field, const char *wanted,
		  struct hotspot_object *out)
{
	char class[TEXT];
	__u64 word, at;
	int err = target_word(memory, field, &word);

	if (err)
		return err;
	if (!widen(layout, memory, NARROW_OOP_BASE, NARROW_OOP_SHIFT, (__u32)word, &at) &&
	    !hotspot_object_at(layout, memory, at, out, class, sizeof(class)) && !strcmp(class, wanted))
		return 0;
	err = object_by(layout, memory, word, out, class, sizeof(class));
	return err ?: strcmp(class, wanted) ? -ENODATA : 0;
}

static size_t put_utf8(char *out, __u32 code)
{
	if (code < 0x80) {
		out[0] = code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = 0xc0 | code >> 6;
		out[1] = 0x80 | (code & 0x3f);
		return 2;
	}
	out[0] = 0xe0 | code >> 12;
	out[1] = 0x80 | (code >> 6 & 0x3f);
	out[2] = 0x80 | (code & 0x3f);
	return 3;
}

/* Of an array of bytes of Latin-1, or of UTF-16.  What needs two numbers of UTF-16 is '?'. */
static int array_text(struct target_memory *memory, const struct hotspot_object *array, bool wide, char *out,
		      size_t size)
{
	const __u64 length_at = array->at + (array->header == HEADER_COMPACT ? 8 : 12);
	const __u32 step = wide ? 2 : 1;
	__u64 length, code;
	size_t used = 0;
	int err;

	/* Where the bytes of such an array begin differs by version. */
	if (array->header == HEADER_FULL)
		return -ENODATA;
	err = target_number(memory, length_at, 4, &length);
	for (__u64 i = 0; !err && i + step <= length && used + 4 <= size; i += step) {
		err = target_number(memory, length_at + 4 + i, step, &code);
		if (!err && code)
			used += put_utf8(out + used, code >= 0xd800 && code < 0xe000 ? '?' : code);
	}
	out[used] = 0;
	return err ?: used ? 0 : -ENODATA;
}

static int string_text(const struct hotspot_layout *layout, struct target_memory *memory,
		       const struct hotspot_object *string, char *out, size_t size)
{
	struct hotspot_object array;
	__u64 offset, wide;
	int err = field_offset(layout, memory, string->klass, "value", "[B", &offset);

	err = err ?: follow(layout, memory, string->at + offset, "[B", &array);
	err = err ?: field_offset(layout, memory, string->klass, "coder", "B", &offset);
	err = err ?: target_number(memory, string->at + offset, 1, &wide);
	return err ?: array_text(memory, &array, wide, out, size);
}

int hotspot_thread_name(const struct hotspot_layout *layout, struct target_memory *memory,
			const struct hotspot_object *thread, char *out, size_t size)
{
	struct hotspot_object name;
	__u64 klass = thread->klass, offset;
	char class[TEXT];
	int err = -ENODATA;

	for (int i = 0; i < MOST_CLASSES && klass; i++) {
		err = class_name(layout, memory, klass, class, sizeof(class));
		if (err || !strcmp(class, "java.lang.Thread"))
			break;
		err = hotspot_member(layout, memory, klass, KLASS_SUPER, &klass) ?: -ENODATA;
	}
	err = err ?: field_offset(layout, memory, klass, "name", "Ljava.lang.String;", &offset);
	err = err ?: follow(layout, memory, thread->at + offset, "java.lang.String", &name);
	return err ?: string_text(layout, memory, &name, out, size);
}
