/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where HotSpot keeps what, as it tells itself: each JVM exports tables of its structures (gHotSpotVMStructs,
 * gHotSpotVMTypes, gHotSpotVMIntConstants), which its own tools read.  So this follows its version.
 */
#ifndef LOCKLINE_HOTSPOT_LAYOUT_H
#define LOCKLINE_HOTSPOT_LAYOUT_H

#include <stdbool.h>
#include <linux/types.h>

#include "base/target_memory.h"

/* Members, by their offset; static ones, by their address. */
enum hotspot_field {
	CODE_CACHE_HEAPS, /* static */
	CODE_CACHE_HEAP,  /* static; until JDK 8 */
	ARRAY_LENGTH,
	ARRAY_DATA,
	HEAP_MEMORY,
	HEAP_SEGMENTS,
	HEAP_SEGMENT_SHIFT,
	SPACE_LOW,
	SPACE_HIGH,
	BLOCK_USED,
	BLOB_NAME,
	BLOB_SIZE,
	BLOB_FRAME_SIZE,
	BLOB_CODE_BEGIN,
	BLOB_CODE_OFFSET,
	BLOB_DATA_OFFSET,
	BLOB_RELOCATION_SIZE,
	BLOB_MUTABLE_DATA,
	COMPILED_METHOD,
	COMPILED_SCOPES,
	NMETHOD_METHOD,
	NMETHOD_SCOPES,
	NMETHOD_PCS,
	NMETHOD_DEPENDENCIES,
	NMETHOD_METADATA,
	NMETHOD_IMMUTABLE_DATA,
	PC_OFFSET,
	PC_SCOPE,
	METHOD_CONST,
	CONST_METHOD_CONSTANTS,
	CONST_METHOD_NAME,
	CONSTANTS_HOLDER,
	CONSTANTS_LENGTH,
	KLASS_NAME,
	SYMBOL_LENGTH,
	SYMBOL_LENGTH_AND_COUNT, /* JDK 12 and 13 */
	SYMBOL_BODY,
	/* Who waits for which monitor (hotspot_monitors.h). */
	THREADS_LIST,  /* static */
	THREADS_FIRST, /* static; until JDK 11, with THREAD_NEXT */
	THREADS_COUNT,
	THREADS_ARRAY,
	THREAD_NEXT,
	THREAD_OSTHREAD,
	THREAD_STACK_BASE,
	THREAD_STACK_SIZE,
	THREAD_OBJECT,
	THREAD_VIRTUAL, /* since JDK 21: what it runs, which may be itself */
	THREAD_PENDING,
	THREAD_OWNER_ID,   /* since JDK 24 */
	THREAD_LOCK_STACK, /* since JDK 21 */
	LOCK_STACK_TOP,
	LOCK_STACK_BASE,
	OSTHREAD_ID,
	MONITOR_OBJECT,
	MONITOR_OWNER,
	/* Objects (hotspot_objects.h). */
	OOP_KLASS,
	NARROW_KLASS_BASE,  /* static */
	NARROW_KLASS_SHIFT, /* static */
	NARROW_OOP_BASE,    /* static */
	NARROW_OOP_SHIFT,   /* static */
	KLASS_SUPER,
	INSTANCE_CONSTANTS,
	INSTANCE_FIELDS, /* until JDK 20 */
	INSTANCE_FIELD_COUNT,
	INSTANCE_FIELD_STREAM, /* since JDK 21 */
	BYTES_DATA,
	HALVES_DATA,
	HOTSPOT_FIELDS
};

enum hotspot_size { SIZE_CONSTANT_POOL, SIZE_HEAP_BLOCK, SIZE_PC_DESC, HOTSPOT_SIZES };

struct hotspot_layout {
	__u64 fields[HOTSPOT_FIELDS]; /* HOTSPOT_ABSENT: this version has none */
	__u64 sizes[HOTSPOT_SIZES];   /* likewise */
	/* Of an interpreted frame, in words from its frame pointer. */
	__s32 sender_sp, last_sp;
};

#define HOTSPOT_ABSENT (~0ull)

/* What the tables are found by. */
enum hotspot_symbol {
	STRUCTS,
	STRUCT_STRIDE,
	STRUCT_TYPE,
	STRUCT_FIELD,
	STRUCT_OFFSET,
	STRUCT_ADDRESS,
	TYPES,
	TYPE_STRIDE,
	TYPE_NAME,
	TYPE_SIZE,
	CONSTANTS,
	CONSTANT_STRIDE,
	CONSTANT_NAME,
	CONSTANT_VALUE,
	HOTSPOT_SYMBOLS
};

extern const char *const hotspot_symbols[HOTSPOT_SYMBOLS];

/* addresses: of these symbols, in the JVM's memory.  -ENODATA: the tables lack what is needed, as before it began. */
int hotspot_layout_read(struct hotspot_layout *layout, struct target_memory *memory, const __u64 *addresses);
bool hotspot_has(const struct hotspot_layout *layout, enum hotspot_field field);
/* A number at a member of what is at base; -ENOENT: the layout has no such member. */
int hotspot_member(const struct hotspot_layout *layout, struct target_memory *memory, __u64 base,
		   enum hotspot_field field, __u64 *out);

/*
 * A number of 1 to 5 bytes (UNSIGNED5), and *at behind it: a byte below a bound ends it.  Since JDK 20 no byte is 0,
 * and all count one less: `without` is 1 then.
 */
int hotspot_unsigned5(struct target_memory *memory, __u64 *at, __u32 without, __u32 *out);

#endif /* LOCKLINE_HOTSPOT_LAYOUT_H */
