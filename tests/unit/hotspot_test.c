// SPDX-License-Identifier: GPL-2.0-or-later
/* A small JVM in memory: its tables, a code cache, a method in another; then forged ones, and any bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hotspot/hotspot_code.h"
#include "hotspot/hotspot_names.h"
#include "hotspot_image.h"
#include "tap.h"

#define ROUNDS 3000
/* Places in the code, and in the JVM's own structures. */
#define SEGMENT     128
#define PLACE       40
#define NMETHOD     0
#define STUB        8
#define INTERPRETER 12
#define SEGMENTS    64

static __u64 low, outer_method, inner_method, segment_map, scope_data;
static struct hotspot_layout layout;
static struct hotspot_heaps heaps;
static struct hotspot_code code;

static __u64 array, inside_metadata;

/* As JDK 17 has it: all in the blob.  As JDK 25: outside. */
static __u64 put_structs(bool outside)
{
	const struct row rows[] = {
		{"CodeCache", "_heaps", 0, word(array)},
		{"GrowableArrayBase", "_len", 0, 0},
		{"GrowableArray<int>", "_data", 8, 0},
		{"CodeHeap", "_memory", 8, 0},
		{"CodeHeap", "_segmap", 48, 0},
		{"CodeHeap", "_log2_segment_size", 88, 0},
		{"VirtualSpace", "_low", 16, 0},
		{"VirtualSpace", "_high", 24, 0},
		{"HeapBlock::Header", "_used", 8, 0},
		{"CodeBlob", "_name", 0, 0},
		{"CodeBlob", "_size", 8, 0},
		{"CodeBlob", "_frame_size", 12, 0},
		{outside ? "-" : "CodeBlob", "_code_begin", 16, 0},
		{"CodeBlob", "_code_offset", 24, 0},
		{outside ? "CodeBlob" : "-", "_mutable_data", 32, 0},
		{outside ? "CodeBlob" : "-", "_relocation_size", 40, 0},
		{outside ? "nmethod" : "CompiledMethod", "_method", 48, 0},
		{outside ? "-" : "CompiledMethod", "_scopes_data_begin", 56, 0},
		{outside ? "nmethod" : "-", "_scopes_data_offset", 64, 0},
		{"nmethod", "_scopes_pcs_offset", 68, 0},
		{outside ? "-" : "nmethod", "_dependencies_offset", 72, 0},
		{outside ? "-" : "nmethod", "_metadata_offset", 76, 0},
		{outside ? "nmethod" : "-", "_immutable_data", 80, 0},
		{"PcDesc", "_pc_offset", 0, 0},
		{"PcDesc", "_scope_decode_offset", 4, 0},
		{"Method", "_constMethod", 8, 0},
		{"ConstMethod", "_constants", 8, 0},
		{"ConstMethod", "_name_index", 34, 0},
		{"ConstantPool", "_pool_holder", 24, 0},
		{"ConstantPool", "_length", 60, 0},
		{"Klass", "_name", 24, 0},
		{"Symbol", "_length", 4, 0},
		{"Symbol", "_body", 6, 0},
	};

	return put_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void put_tables(bool outside)
{
	static const char *const types[] = {"ConstantPool", "HeapBlock", "PcDesc"};
	static const char *const constants[] = {"frame::interpreter_frame_sender_sp_offset"};
	const __u64 sizes[] = {72, 16, 16}, values[] = {-1};

	put_tables_at(put_structs(outside), put_named(types, sizes, 3), put_named(constants, values, 1));
}

static __u64 put_method(const char *class, const char *name)
{
	const __u64 method = room(64), constant = room(64), pool = room(128), klass = room(64);

	set(method + 8, 8, constant);
	set(constant + 8, 8, pool);
	set(constant + 34, 2, 3);
	set(pool + 24, 8, klass);
	set(pool + 60, 4, 5);
	set(pool + 72 + 3 * 8, 8, put_symbol(name));
	set(klass + 24, 8, put_symbol(class));
	return method;
}

static __u64 put_blob(int segment, int segments, const char *name, int words)
{
	const __u64 block = low + segment * SEGMENT, blob = block + 16;

	for (int i = 0; i < segments; i++)
		set(segment_map + segment + i, 1, i);
	set(block + 8, 1, 1);
	set(blob, 8, text(name));
	set(blob + 8, 4, segments * SEGMENT - 16);
	set(blob + 12, 4, words);
	set(blob + 16, 8, blob + 128);
	set(blob + 24, 4, 128);
	return blob;
}

/* Scopes: of the inner method, whose sender is the outer one.  without: as of hotspot_code.c's numbers. */
static void put_scopes(__u64 blob, bool outside, __u8 without)
{
	const __u64 pcs = outside ? room(4096) : blob + 256, scopes = pcs + 64;
	const __u64 metadata = outside ? room(64) : blob + 448;

	scope_data = scopes;
	inside_metadata = metadata;
	set(pcs, 4, -1);
	set(pcs + 16, 4, PLACE);
	set(pcs + 20, 4, 1);
	set(pcs + 32, 4, 1 << 20);
	set(scopes + 1, 1, 8 + without);
	set(scopes + 2, 1, 2 + without);
	set(scopes + 8, 1, without);
	set(scopes + 9, 1, 1 + without);
	set(metadata, 8, outer_method);
	set(metadata + 8, 8, inner_method);
	set(blob + 48, 8, outer_method);
	set(blob + 56, 8, scopes);
	set(blob + 64, 4, outside ? 64 : scopes - blob);
	set(blob + 68, 4, outside ? 0 : pcs - blob);
	set(blob + 72, 4, pcs + 48 - blob);
	set(blob + 76, 4, metadata - blob);
	set(blob + 80, 8, pcs);
	set(blob + 32, 8, metadata - 24);
	set(blob + 40, 4, 24);
}

static void put_jvm(bool outside, __u8 without)
{
	__u64 heap, data;

	memset(image, 0, sizeof(image));
	used = 64;
	memory.fetch = fetch;
	array = room(16);
	heap = room(128);
	data = word(heap);
	segment_map = room(SEGMENTS);
	low = room(SEGMENTS * SEGMENT);
	memset(image + (segment_map - BASE), 0xff, SEGMENTS);
	set(array, 4, 1);
	set(array + 8, 8, data);
	set(heap + 8 + 16, 8, low);
	set(heap + 8 + 24, 8, low + SEGMENTS * SEGMENT);
	set(heap + 48 + 16, 8, segment_map);
	set(heap + 48 + 24, 8, segment_map + SEGMENTS);
	set(heap + 88, 4, 7);
	outer_method = put_method("a/Server", "serve");
	inner_method = put_method("a/Server$Book", "book");
	put_scopes(put_blob(NMETHOD, 6, "nmethod", 6), outside, without);
	put_blob(STUB, 2, "Stub", 4);
	put_blob(INTERPRETER, 3, "Interpreter", 0);
	put_tables(outside);
}

static int open_jvm(void)
{
	int err;

	target_begin(&memory);
	err = hotspot_layout_read(&layout, &memory, addresses);
	return err ?: hotspot_heaps_read(&heaps, &layout, &memory);
}

static int look(int segment, __u64 place)
{
	target_begin(&memory);
	return hotspot_code_at(&heaps, &layout, &memory, low + segment * SEGMENT + 16 + 128 + place, &code);
}

static void check_jvm(bool outside, __u8 without)
{
	char name[64];

	put_jvm(outside, without);
	CHECK(!open_jvm(), "the tables");
	CHECK(layout.sender_sp == -1 && layout.last_sp == -2 && heaps.count == 1, "%d", layout.sender_sp);
	CHECK(!look(NMETHOD, PLACE) && code.kind == HOTSPOT_COMPILED, "compiled");
	CHECK(code.frame_bytes == 48 && code.method == outer_method, "%u", code.frame_bytes);
	CHECK(code.inlined_count == 1 && code.inlined[0] == inner_method, "%u", code.inlined_count);
	CHECK(!look(NMETHOD, PLACE + 1) && !code.inlined_count, "another place has no names");
	CHECK(!look(STUB, 8) && code.kind == HOTSPOT_STUB, "a stub");
	CHECK_TEXT(code.name, "Stub");
	CHECK(!look(INTERPRETER, 8) && code.kind == HOTSPOT_INTERPRETER, "the interpreter");
	CHECK(look(40, 0) == -ENOENT, "no code");
	CHECK(hotspot_code_at(&heaps, &layout, &memory, low - 1, &code) == -ENOENT, "before it");
	CHECK(!hotspot_method_name(&layout, &memory, inner_method, name, sizeof(name)), "a name");
	CHECK_TEXT(name, "a.Server$Book.book");
	CHECK(!hotspot_method_name(&layout, &memory, inner_method, name, 12), "no room");
	CHECK_TEXT(name, "a.Serv.book");
	CHECK(hotspot_method_name(&layout, &memory, inner_method + 4, name, sizeof(name)), "no method");
}

static void debug_information_in_the_blob(void)
{
	check_jvm(false, 0);
	check_jvm(false, 1);
}

static void debug_information_outside(void)
{
	check_jvm(true, 1);
}

static void a_table_without_end(void)
{
	put_jvm(false, 1);
	/* Each entry is the one before, and no name ends. */
	set(addresses[STRUCT_STRIDE], 8, 0);
	CHECK(open_jvm() == -ENODATA, "it has no stride");
	put_jvm(false, 1);
	memset(image, 0x41, sizeof(image));
	CHECK(open_jvm() < 0, "any bytes");
	put_jvm(false, 1);
	set(addresses[STRUCTS], 8, BASE + BYTES - 64);
	CHECK(open_jvm() < 0, "it ends with the memory");
}

static void scopes_in_a_circle(void)
{
	put_jvm(false, 1);
	CHECK(!open_jvm(), "the tables");
	/* Its sender is itself. */
	set(scope_data + 1, 1, 1 + 1);
	CHECK(!look(NMETHOD, PLACE) && !code.inlined_count, "%u", code.inlined_count);
	/* They end at another method than the compiled one. */
	put_jvm(false, 1);
	set(inside_metadata, 8, inner_method);
	CHECK(!look(NMETHOD, PLACE) && !code.inlined_count, "%u", code.inlined_count);
}

static void a_segment_map_that_leads_nowhere(void)
{
	put_jvm(false, 1);
	CHECK(!open_jvm(), "the tables");
	set(segment_map + STUB, 1, STUB + 1);
	CHECK(look(STUB, 8) < 0, "before the first segment");
	heaps.list[0].segments = BASE + BYTES;
	CHECK(look(STUB, 8) < 0, "no memory");
}

/* Whatever stands there: no question takes more than its bound, and none fails but with a number. */
static void any_bytes(void)
{
	unsigned int seed = 20261124;

	for (int i = 0; i < ROUNDS; i++) {
		char name[64];

		put_jvm(i & 1, 1);
		for (int j = rand_r(&seed) % 24; j >= 0; j--)
			set(BASE + rand_r(&seed) % (used - 8), 1 << rand_r(&seed) % 4,
			    rand_r(&seed) % 3 ? BASE + rand_r(&seed) % used : (__u64)rand_r(&seed) << 33);
		if (open_jvm())
			continue;
		look(NMETHOD, PLACE);
		CHECK(code.inlined_count <= HOTSPOT_INLINED, "%u", code.inlined_count);
		CHECK(memory.left > TARGET_MOST / 2, "%u pages were read", TARGET_MOST - memory.left);
		look(STUB, 8);
		hotspot_method_name(&layout, &memory, outer_method, name, sizeof(name));
	}
}

int main(void)
{
	static const struct test tests[] = {
		TEST(debug_information_in_the_blob),
		TEST(debug_information_outside),
		TEST(a_table_without_end),
		TEST(scopes_in_a_circle),
		TEST(a_segment_map_that_leads_nowhere),
		TEST(any_bytes),
	};

	return RUN_TESTS(tests);
}
