// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "hotspot/hotspot_layout.h"

/* JDK 25 has some 900 members in its tables, 17 some 1,500 and 8 some 2,000. */
#define MOST_ENTRIES 8192
#define MOST_STRIDE  256
#define NAME         64

const char *const hotspot_symbols[HOTSPOT_SYMBOLS] = {
	[STRUCTS] = "gHotSpotVMStructs",
	[STRUCT_STRIDE] = "gHotSpotVMStructEntryArrayStride",
	[STRUCT_TYPE] = "gHotSpotVMStructEntryTypeNameOffset",
	[STRUCT_FIELD] = "gHotSpotVMStructEntryFieldNameOffset",
	[STRUCT_OFFSET] = "gHotSpotVMStructEntryOffsetOffset",
	[STRUCT_ADDRESS] = "gHotSpotVMStructEntryAddressOffset",
	[TYPES] = "gHotSpotVMTypes",
	[TYPE_STRIDE] = "gHotSpotVMTypeEntryArrayStride",
	[TYPE_NAME] = "gHotSpotVMTypeEntryTypeNameOffset",
	[TYPE_SIZE] = "gHotSpotVMTypeEntrySizeOffset",
	[CONSTANTS] = "gHotSpotVMIntConstants",
	[CONSTANT_STRIDE] = "gHotSpotVMIntConstantEntryArrayStride",
	[CONSTANT_NAME] = "gHotSpotVMIntConstantEntryNameOffset",
	[CONSTANT_VALUE] = "gHotSpotVMIntConstantEntryValueOffset",
};

static const struct {
	const char *type, *name;
	bool is_static;
	__u8 size; /* bytes of the number there */
} fields[HOTSPOT_FIELDS] = {
	[CODE_CACHE_HEAPS] = {"CodeCache", "_heaps", true, 8},
	[CODE_CACHE_HEAP] = {"CodeCache", "_heap", true, 8},
	[ARRAY_LENGTH] = {"GrowableArrayBase", "_len", false, 4},
	[ARRAY_DATA] = {"GrowableArray<int>", "_data", false, 8},
	[HEAP_MEMORY] = {"CodeHeap", "_memory", false, 8},
	[HEAP_SEGMENTS] = {"CodeHeap", "_segmap", false, 8},
	[HEAP_SEGMENT_SHIFT] = {"CodeHeap", "_log2_segment_size", false, 4},
	[SPACE_LOW] = {"VirtualSpace", "_low", false, 8},
	[SPACE_HIGH] = {"VirtualSpace", "_high", false, 8},
	[BLOCK_USED] = {"HeapBlock::Header", "_used", false, 1},
	[BLOB_NAME] = {"CodeBlob", "_name", false, 8},
	[BLOB_SIZE] = {"CodeBlob", "_size", false, 4},
	[BLOB_FRAME_SIZE] = {"CodeBlob", "_frame_size", false, 4},
	[BLOB_CODE_BEGIN] = {"CodeBlob", "_code_begin", false, 8},
	[BLOB_CODE_OFFSET] = {"CodeBlob", "_code_offset", false, 4},
	[BLOB_DATA_OFFSET] = {"CodeBlob", "_data_offset", false, 4},
	[BLOB_RELOCATION_SIZE] = {"CodeBlob", "_relocation_size", false, 4},
	[BLOB_MUTABLE_DATA] = {"CodeBlob", "_mutable_data", false, 8},
	[COMPILED_METHOD] = {"CompiledMethod", "_method", false, 8},
	[COMPILED_SCOPES] = {"CompiledMethod", "_scopes_data_begin", false, 8},
	[NMETHOD_METHOD] = {"nmethod", "_method", false, 8},
	[NMETHOD_SCOPES] = {"nmethod", "_scopes_data_offset", false, 4},
	[NMETHOD_PCS] = {"nmethod", "_scopes_pcs_offset", false, 4},
	[NMETHOD_DEPENDENCIES] = {"nmethod", "_dependencies_offset", false, 4},
	[NMETHOD_METADATA] = {"nmethod", "_metadata_offset", false, 4},
	[NMETHOD_IMMUTABLE_DATA] = {"nmethod", "_immutable_data", false, 8},
	[PC_OFFSET] = {"PcDesc", "_pc_offset", false, 4},
	[PC_SCOPE] = {"PcDesc", "_scope_decode_offset", false, 4},
	[METHOD_CONST] = {"Method", "_constMethod", false, 8},
	[CONST_METHOD_CONSTANTS] = {"ConstMethod", "_constants", false, 8},
	[CONST_METHOD_NAME] = {"ConstMethod", "_name_index", false, 2},
	[CONSTANTS_HOLDER] = {"ConstantPool", "_pool_holder", false, 8},
	[CONSTANTS_LENGTH] = {"ConstantPool", "_length", false, 4},
	[KLASS_NAME] = {"Klass", "_name", false, 8},
	[SYMBOL_LENGTH] = {"Symbol", "_length", false, 2},
	[SYMBOL_LENGTH_AND_COUNT] = {"Symbol", "_length_and_refcount", false, 4},
	[SYMBOL_BODY] = {"Symbol", "_body", false, 1},
	[THREADS_LIST] = {"ThreadsSMRSupport", "_java_thread_list", true, 8},
	[THREADS_FIRST] = {"Threads", "_thread_list", true, 8},
	[THREADS_COUNT] = {"ThreadsList", "_length", false, 4},
	[THREADS_ARRAY] = {"ThreadsList", "_threads", false, 8},
	[THREAD_NEXT] = {"JavaThread", "_next", false, 8},
	[THREAD_OSTHREAD] = {"JavaThread", "_osthread", false, 8},
	[THREAD_STACK_BASE] = {"JavaThread", "_stack_base", false, 8},
	[THREAD_STACK_SIZE] = {"JavaThread", "_stack_size", false, 8},
	[THREAD_OBJECT] = {"JavaThread", "_threadObj", false, 8},
	[THREAD_VIRTUAL] = {"JavaThread", "_vthread", false, 8},
	[THREAD_PENDING] = {"JavaThread", "_current_pending_monitor", false, 8},
	[THREAD_OWNER_ID] = {"JavaThread", "_monitor_owner_id", false, 8},
	[THREAD_LOCK_STACK] = {"JavaThread", "_lock_stack", false, 8},
	[LOCK_STACK_TOP] = {"LockStack", "_top", false, 4},
	[LOCK_STACK_BASE] = {"LockStack", "_base[0]", false, 8},
	[OSTHREAD_ID] = {"OSThread", "_thread_id", false, 4},
	[MONITOR_OBJECT] = {"ObjectMonitor", "_object", false, 8},
	[MONITOR_OWNER] = {"ObjectMonitor", "_owner", false, 8},
	[OOP_KLASS] = {"oopDesc", "_metadata._klass", false, 8},
	[NARROW_KLASS_BASE] = {"CompressedKlassPointers", "_narrow_klass._base", true, 8},
	[NARROW_KLASS_SHIFT] = {"CompressedKlassPointers", "_narrow_klass._shift", true, 4},
	[NARROW_OOP_BASE] = {"CompressedOops", "_narrow_oop._base", true, 8},
	[NARROW_OOP_SHIFT] = {"CompressedOops", "_narrow_oop._shift", true, 4},
	[KLASS_SUPER] = {"Klass", "_super", false, 8},
	[INSTANCE_CONSTANTS] = {"InstanceKlass", "_constants", false, 8},
	[INSTANCE_FIELDS] = {"InstanceKlass", "_fields", false, 8},
	[INSTANCE_FIELD_COUNT] = {"InstanceKlass", "_java_fields_count", false, 2},
	[INSTANCE_FIELD_STREAM] = {"InstanceKlass", "_fieldinfo_stream", false, 8},
	[BYTES_DATA] = {"Array<u1>", "_data", false, 1},
	[HALVES_DATA] = {"Array<u2>", "_data", false, 2},
};

/* What some versions call the same. */
static const struct {
	enum hotspot_field field;
	const char *type, *name;
} others[] = {
	/* Since JDK 24. */
	{NARROW_KLASS_BASE, "CompressedKlassPointers", "_base"},
	{NARROW_KLASS_SHIFT, "CompressedKlassPointers", "_shift"},
	{NARROW_OOP_BASE, "CompressedOops", "_base"},
	{NARROW_OOP_SHIFT, "CompressedOops", "_shift"},
	{THREAD_OSTHREAD, "Thread", "_osthread"},
	/* Until JDK 11 or 12. */
	{NARROW_KLASS_BASE, "Universe", "_narrow_klass._base"},
	{NARROW_KLASS_SHIFT, "Universe", "_narrow_klass._shift"},
	{NARROW_OOP_BASE, "Universe", "_narrow_oop._base"},
	{NARROW_OOP_SHIFT, "Universe", "_narrow_oop._shift"},
	{THREAD_PENDING, "Thread", "_current_pending_monitor"},
};

static const char *const sizes[HOTSPOT_SIZES] = {
	[SIZE_CONSTANT_POOL] = "ConstantPool",
	[SIZE_HEAP_BLOCK] = "HeapBlock",
	[SIZE_PC_DESC] = "PcDesc",
};

/* Without these nothing can be found. */
static const enum hotspot_field needed[] = {
	HEAP_MEMORY,       HEAP_SEGMENTS,    HEAP_SEGMENT_SHIFT, SPACE_LOW,    SPACE_HIGH,
	BLOB_NAME,         BLOB_SIZE,        BLOB_FRAME_SIZE,    METHOD_CONST, CONST_METHOD_CONSTANTS,
	CONST_METHOD_NAME, CONSTANTS_HOLDER, KLASS_NAME,         SYMBOL_BODY,
};

/* A table: where it begins, and where its entries have what. */
struct table {
	__u64 at, stride;
	__u64 name, value; /* offsets in an entry */
};

static int open_table(struct table *table, struct target_memory *memory, const __u64 *addresses,
		      enum hotspot_symbol begin, enum hotspot_symbol name, enum hotspot_symbol value)
{
	int err = target_word(memory, addresses[begin], &table->at);

	/* The stride's symbol follows the table's. */
	err = err ?: target_word(memory, addresses[begin + 1], &table->stride);
	err = err ?: target_word(memory, addresses[name], &table->name);
	err = err ?: target_word(memory, addresses[value], &table->value);
	if (err)
		return err;
	if (!table->at || table->stride < 2 * sizeof(__u64) || table->stride > MOST_STRIDE ||
	    table->name > table->stride - sizeof(__u64) || table->value > table->stride - sizeof(__u32))
		return -ENODATA;
	return 0;
}

/* The name of an entry; -ENOENT: the table ends here. */
static int entry_name(struct target_memory *memory, __u64 entry, __u64 offset, char *out)
{
	__u64 text;
	int err = target_word(memory, entry + offset, &text);

	return err ?: text ? target_text(memory, text, out, NAME) : -ENOENT;
}

/* HOTSPOT_FIELDS: none that is wanted. */
static enum hotspot_field field_called(const char *type, const char *name)
{
	enum hotspot_field found = HOTSPOT_FIELDS;

	for (int i = 0; i < HOTSPOT_FIELDS; i++)
		if (fields[i].type && !strcmp(fields[i].type, type) && !strcmp(fields[i].name, name))
			found = i;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(others[i].type, type) && !strcmp(others[i].name, name))
			found = others[i].field;
	return found;
}

static int read_structs(struct hotspot_layout *layout, struct target_memory *memory, const __u64 *addresses)
{
	__u64 field_at, address_at;
	char type[NAME], name[NAME];
	struct table table;
	int err = open_table(&table, memory, addresses, STRUCTS, STRUCT_TYPE, STRUCT_OFFSET);

	err = err ?: target_word(memory, addresses[STRUCT_FIELD], &field_at);
	err = err ?: target_word(memory, addresses[STRUCT_ADDRESS], &address_at);
	if (!err && (field_at > table.stride - sizeof(__u64) || address_at > table.stride - sizeof(__u64)))
		err = -ENODATA;
	for (int i = 0; !err && i < MOST_ENTRIES; i++, table.at += table.stride) {
		enum hotspot_field field;

		err = entry_name(memory, table.at, table.name, type);
		err = err ?: entry_name(memory, table.at, field_at, name);
		field = err ? HOTSPOT_FIELDS : field_called(type, name);
		if (field != HOTSPOT_FIELDS)
			err = target_word(memory, table.at + (fields[field].is_static ? address_at : table.value),
					  &layout->fields[field]);
	}
	return err == -ENOENT ? 0 : err;
}

static int read_sizes(struct hotspot_layout *layout, struct target_memory *memory, const __u64 *addresses)
{
	struct table table;
	char name[NAME];
	int err = open_table(&table, memory, addresses, TYPES, TYPE_NAME, TYPE_SIZE);

	for (int i = 0; !err && i < MOST_ENTRIES; i++, table.at += table.stride) {
		err = entry_name(memory, table.at, table.name, name);
		for (int j = 0; !err && j < HOTSPOT_SIZES; j++)
			if (!strcmp(sizes[j], name))
				err = target_word(memory, table.at + table.value, &layout->sizes[j]);
	}
	return err == -ENOENT ? 0 : err;
}

static int read_constants(struct hotspot_layout *layout, struct target_memory *memory, const __u64 *addresses)
{
	struct table table;
	char name[NAME];
	int err = open_table(&table, memory, addresses, CONSTANTS, CONSTANT_NAME, CONSTANT_VALUE);

	for (int i = 0; !err && i < MOST_ENTRIES; i++, table.at += table.stride) {
		__s32 *value = NULL;

		err = entry_name(memory, table.at, table.name, name);
		if (!err && !strcmp(name, "frame::interpreter_frame_sender_sp_offset"))
			value = &layout->sender_sp;
		if (!err && !strcmp(name, "frame::interpreter_frame_last_sp_offset"))
			value = &layout->last_sp;
		if (value)
			err = target_read(memory, table.at + table.value, value, sizeof(*value));
	}
	return err == -ENOENT ? 0 : err;
}

bool hotspot_has(const struct hotspot_layout *layout, enum hotspot_field field)
{
	return layout->fields[field] != HOTSPOT_ABSENT;
}

int hotspot_layout_read(struct hotspot_layout *layout, struct target_memory *memory, const __u64 *addresses)
{
	int err;

	memset(layout, 0xff, sizeof(*layout));
	/* So on x86-64 and arm64 in all versions; where the table has them, what it says counts. */
	layout->sender_sp = -1;
	layout->last_sp = -2;
	err = read_structs(layout, memory, addresses);
	err = err ?: read_sizes(layout, memory, addresses);
	err = err ?: read_constants(layout, memory, addresses);
	for (size_t i = 0; !err && i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!hotspot_has(layout, needed[i]))
			err = -ENODATA;
	if (!err &&
	    (layout->sizes[SIZE_CONSTANT_POOL] == HOTSPOT_ABSENT || layout->sizes[SIZE_HEAP_BLOCK] > TARGET_PAGE))
		err = -ENODATA;
	return err;
}

int hotspot_member(const struct hotspot_layout *layout, struct target_memory *memory, __u64 base,
		   enum hotspot_field field, __u64 *out)
{
	*out = 0;
	if (!hotspot_has(layout, field))
		return -ENOENT;
	return target_number(memory, (fields[field].is_static ? 0 : base) + layout->fields[field], fields[field].size,
			     out);
}

int hotspot_unsigned5(struct target_memory *memory, __u64 *at, __u32 without, __u32 *out)
{
	__u32 sum = 0;

	for (int i = 0; i < 5; i++) {
		__u64 byte;
		int err = target_number(memory, (*at)++, 1, &byte);

		if (err)
			return err;
		if (byte < without)
			return -EINVAL;
		sum += (__u32)(byte - without) << 6 * i;
		if (byte < 192)
			break;
	}
	*out = sum;
	return 0;
}
