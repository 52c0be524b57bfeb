// SPDX-License-Identifier: GPL-2.0-or-later
/* A small JVM whose threads wait for monitors: of JDK 17 and of 25; then forged ones, and any bytes. */
#include <stdlib.h>

#include "hotspot/hotspot_monitors.h"
#include "hotspot_image.h"
#include "tap.h"

#define THREADS 518
#define ROUNDS  3000
/* Places in the JVM's structures. */
#define THREAD_BYTES 256
#define LOCK_STACK   128
#define POOL_BYTES   64

enum version { WITH_POINTERS, WITH_IDS };

static struct hotspot_layout layout;
static struct hotspot_known known;
static struct hotspot_monitors found;
static __u64 threads[THREADS], monitors[2], klass_base, heap_base, list, ledger;

static const struct row common[] = {
	{"CodeHeap", "_memory", 8, 0},
	{"CodeHeap", "_segmap", 48, 0},
	{"CodeHeap", "_log2_segment_size", 88, 0},
	{"VirtualSpace", "_low", 16, 0},
	{"VirtualSpace", "_high", 24, 0},
	{"CodeBlob", "_name", 0, 0},
	{"CodeBlob", "_size", 8, 0},
	{"CodeBlob", "_frame_size", 12, 0},
	{"Method", "_constMethod", 8, 0},
	{"ConstMethod", "_constants", 8, 0},
	{"ConstMethod", "_name_index", 34, 0},
	{"ConstantPool", "_pool_holder", 24, 0},
	{"Symbol", "_length", 4, 0},
	{"Symbol", "_body", 6, 0},
	{"Klass", "_name", 24, 0},
	{"Klass", "_super", 32, 0},
	{"InstanceKlass", "_constants", 40, 0},
	{"Array<u1>", "_data", 4, 0},
	{"Array<u2>", "_data", 4, 0},
	{"oopDesc", "_metadata._klass", 8, 0},
	{"ThreadsList", "_length", 4, 0},
	{"ThreadsList", "_threads", 16, 0},
	{"JavaThread", "_threadObj", 16, 0},
	{"JavaThread", "_current_pending_monitor", 24, 0},
	{"JavaThread", "_stack_base", 32, 0},
	{"JavaThread", "_stack_size", 40, 0},
	{"OSThread", "_thread_id", 12, 0},
	{"ObjectMonitor", "_object", 8, 0},
	{"ObjectMonitor", "_owner", 64, 0},
};

static __u64 put_structs(enum version version)
{
	const struct row own[2][9] = {
		[WITH_POINTERS] =
			{
				{"InstanceKlass", "_fields", 48, 0},
				{"InstanceKlass", "_java_fields_count", 56, 0},
				{"CompressedKlassPointers", "_narrow_klass._base", 0, word(klass_base)},
				{"CompressedKlassPointers", "_narrow_klass._shift", 0, word(3)},
				{"CompressedOops", "_narrow_oop._base", 0, word(heap_base)},
				{"CompressedOops", "_narrow_oop._shift", 0, word(3)},
				{"JavaThread", "_osthread", 8, 0},
				{"-", "-", 0, 0},
				{"ThreadsSMRSupport", "_java_thread_list", 0, word(list)},
			},
		[WITH_IDS] =
			{
				{"InstanceKlass", "_fieldinfo_stream", 48, 0},
				{"CompressedKlassPointers", "_base", 0, word(klass_base)},
				{"CompressedKlassPointers", "_shift", 0, word(3)},
				{"CompressedOops", "_base", 0, word(heap_base)},
				{"CompressedOops", "_shift", 0, word(3)},
				{"Thread", "_osthread", 8, 0},
				{"JavaThread", "_monitor_owner_id", 48, 0},
				{"JavaThread", "_lock_stack", LOCK_STACK, 0},
				{"ThreadsSMRSupport", "_java_thread_list", 0, word(list)},
			},
	};
	const struct row stack[] = {{"LockStack", "_top", 0, 0}, {"LockStack", "_base[0]", 8, 0}};
	const int count = sizeof(common) / sizeof(common[0]);
	struct row all[sizeof(common) / sizeof(common[0]) + 11];

	memcpy(all, common, sizeof(common));
	memcpy(all + count, own[version], sizeof(own[version]));
	memcpy(all + count + 9, stack, sizeof(stack));
	return put_rows(all, count + (version == WITH_IDS ? 11 : 9));
}

struct field {
	const char *name, *signature;
	__u32 offset;
};

/* The fields lie as the version has them; the constants have the names from place 1 on. */
static __u64 put_class(enum version version, const char *name, __u64 above, const struct field *fields, int count)
{
	const __u64 klass = room(64), pool = room(POOL_BYTES + 16 * (count + 1)), table = room(4 + 12 * (count + 1));
	__u64 at = table + 4;

	set(klass + 24, 8, put_symbol(name));
	set(klass + 32, 8, above);
	set(klass + 40, 8, pool);
	set(klass + 48, 8, table);
	set(klass + 56, 2, count);
	if (version == WITH_IDS) {
		set(at++, 1, count + 1);
		set(at++, 1, 0 + 1);
	}
	for (int i = 0; i < count; i++) {
		const int place = 1 + 2 * i;

		set(pool + POOL_BYTES + 8 * place, 8, put_symbol(fields[i].name));
		set(pool + POOL_BYTES + 8 * place + 8, 8, put_symbol(fields[i].signature));
		if (version == WITH_IDS) {
			/* Name, signature, offset, access, flags: it has a value and a generic signature. */
			const __u8 numbers[] = {place, place + 1, fields[i].offset, 2, 1 | 4, 9, 9};

			for (int j = 0; j < 7; j++)
				set(at++, 1, numbers[j] + 1);
		} else {
			set(at + 2, 2, place);
			set(at + 4, 2, place + 1);
			set(at + 8, 4, fields[i].offset << 2 | 1);
			at += 12;
		}
	}
	return klass;
}

static __u64 put_object(__u64 klass, int bytes)
{
	const __u64 at = room(bytes);

	set(at, 8, 1);
	set(at + 8, 4, (klass - klass_base) >> 3);
	return at;
}

static void put_jvm(enum version version)
{
	static const char *const types[] = {"ConstantPool", "HeapBlock"};
	static const char *const constants[] = {"-"};
	static const struct field of_string[] = {{"hash", "I", 12}, {"value", "[B", 16}, {"coder", "B", 20}};
	static const struct field of_thread[] = {{"tid", "J", 16}, {"name", "Ljava/lang/String;", 12}};
	const __u64 sizes[] = {POOL_BYTES, 16}, values[] = {0};
	__u64 object, string, array, of_bytes, strings, java_thread, worker, name;

	memset(image, 0, sizeof(image));
	memset(&known, 0, sizeof(known));
	used = 64;
	klass_base = heap_base = BASE;
	memory.fetch = fetch;
	object = put_class(version, "java/lang/Object", 0, NULL, 0);
	of_bytes = put_class(version, "[B", object, NULL, 0);
	strings = put_class(version, "java/lang/String", object, of_string, 3);
	java_thread = put_class(version, "java/lang/Thread", object, of_thread, 2);
	worker = put_class(version, "a/Worker", java_thread, NULL, 0);
	array = put_object(of_bytes, 32);
	set(array + 12, 4, 6);
	memcpy(image + (array + 16 - BASE), "clerk\xe9", 6);
	string = put_object(strings, 24);
	set(string + 16, 4, (array - heap_base) >> 3);
	name = put_object(worker, 32);
	set(name + 12, 4, (string - heap_base) >> 3);
	ledger = put_object(put_class(version, "a/Server$Ledger", object, NULL, 0), 16);
	for (int i = 0; i < 2; i++)
		monitors[i] = room(96);
	set(monitors[0] + 8, 8, word(ledger));
	set(monitors[1] + 8, 8, word(put_object(object, 16)));
	list = room(32);
	set(list + 4, 4, THREADS);
	set(list + 16, 8, room(8 * THREADS));
	for (int i = 0; i < THREADS; i++) {
		const __u64 native = room(16);
		__u64 array_of_threads;

		memcpy(&array_of_threads, image + (list + 16 - BASE), 8);
		threads[i] = room(THREAD_BYTES);
		set(array_of_threads + 8 * i, 8, threads[i]);
		set(threads[i] + 8, 8, native);
		set(native + 12, 4, 1000 + i);
		set(threads[i] + 16, 8, word(name));
		set(threads[i] + 32, 8, (__u64)(i + 1) << 20);
		set(threads[i] + 40, 8, 1 << 16);
		set(threads[i] + 48, 8, 100 + i);
		set(threads[i] + LOCK_STACK, 4, LOCK_STACK + 8);
	}
	put_tables_at(put_structs(version), put_named(types, sizes, 2), put_named(constants, values, 1));
}

static int look(__u32 cursor)
{
	target_begin(&memory);
	return hotspot_monitors_read(&layout, &memory, &known, 1, cursor, &found);
}

static int open_jvm(void)
{
	target_begin(&memory);
	return hotspot_layout_read(&layout, &memory, addresses);
}

static void waits(int thread, __u64 monitor)
{
	set(threads[thread] + 24, 8, monitor);
}

static void check_waiters(enum version version)
{
	put_jvm(version);
	CHECK(!open_jvm() && !look(0) && !found.count && found.looked_at == HOTSPOT_LOOKED, "nobody waits");
	CHECK(found.threads == THREADS && found.cursor == HOTSPOT_LOOKED, "%u", found.cursor);
	waits(1, monitors[0]);
	waits(2, monitors[1]);
	waits(3, monitors[0]);
	waits(THREADS - 1, monitors[0]);
	set(monitors[0] + 64, 8, version == WITH_IDS ? 100 + 66 : threads[66]);
	CHECK(!look(0) && found.count == 2 && found.waiters == 3, "%u", found.waiters);
	CHECK(found.list[0].address == monitors[0] && found.list[0].waiting == 2, "%u", found.list[0].waiting);
	CHECK_TEXT(found.list[0].class, "a.Server$Ledger");
	CHECK_TEXT(found.list[1].class, "java.lang.Object");
	CHECK(found.list[0].owner == 1066 && !found.list[1].owner, "%u", found.list[0].owner);
	CHECK_TEXT(found.list[0].owner_name, "clerk\xc3\xa9");
	CHECK(found.waiter[1].monitor == 1 && found.waiter[1].tid == 1002, "%u", found.waiter[1].tid);
	/* The threads that are left, then the first ones again. */
	CHECK(!look(found.cursor) && found.list[0].waiting == 3 && found.waiter[0].tid == 1000 + THREADS - 1, "%u",
	      found.list[0].waiting);
	CHECK(found.cursor == 506, "%u", found.cursor);
}

/* All that wait are counted; who they are is told of the first ones, and of the others the next time. */
static void many_waiters(void)
{
	put_jvm(WITH_IDS);
	CHECK(!open_jvm(), "the tables");
	for (int i = 100; i < 200; i++)
		waits(i, monitors[0]);
	CHECK(!look(0) && found.list[0].waiting == 100 && found.waiters == HOTSPOT_WAITERS, "%u, %u",
	      found.list[0].waiting, found.waiters);
	CHECK(found.waiter[0].tid == 1100 && found.cursor == 100 + HOTSPOT_WAITERS, "%u, %u", found.waiter[0].tid,
	      found.cursor);
	CHECK(!look(found.cursor) && found.list[0].waiting == 94 && found.waiter[0].tid == 1164, "%u, %u",
	      found.list[0].waiting, found.waiter[0].tid);
}

static void owners_by_their_thread(void)
{
	check_waiters(WITH_POINTERS);
	/* A place on the stack of a thread. */
	set(monitors[0] + 64, 8, (5ull << 20) - 4096);
	CHECK(!look(0) && found.list[0].owner == 1004, "%u", found.list[0].owner);
	set(monitors[0] + 64, 8, 5ull << 20);
	CHECK(!look(0) && !found.list[0].owner, "%u", found.list[0].owner);
}

static void owners_by_their_number(void)
{
	check_waiters(WITH_IDS);
	/* Nobody by the monitor; the thread itself notes what it has locked. */
	set(monitors[0] + 64, 8, 1);
	CHECK(!look(0) && !found.list[0].owner, "%u", found.list[0].owner);
	set(threads[40] + LOCK_STACK, 4, LOCK_STACK + 24);
	set(threads[40] + LOCK_STACK + 16, 8, ledger);
	CHECK(!look(0) && found.list[0].owner == 1040, "%u", found.list[0].owner);
}

static void more_monitors_than_are_told(void)
{
	put_jvm(WITH_POINTERS);
	CHECK(!open_jvm(), "the tables");
	for (int i = 0; i < HOTSPOT_MONITORS + 3; i++)
		waits(i, BASE + 64 * i + 8);
	CHECK(!look(0) && found.count == HOTSPOT_MONITORS && found.untold == 3, "%u", found.untold);
	/* The next look begins at those. */
	CHECK(found.cursor == HOTSPOT_MONITORS, "%u", found.cursor);
	CHECK(!look(found.cursor) && found.list[0].address == BASE + 64 * HOTSPOT_MONITORS + 8, "%llx",
	      (unsigned long long)found.list[0].address);
}

static void lists_that_lie(void)
{
	put_jvm(WITH_POINTERS);
	CHECK(!open_jvm(), "the tables");
	set(list + 4, 4, 0);
	CHECK(!look(7) && !found.count, "no threads");
	set(list + 4, 4, -1);
	CHECK(look(0) == -EINVAL && !found.count, "too many");
	set(list + 4, 4, THREADS);
	set(list + 16, 8, BASE + BYTES);
	CHECK(look(0) == -EFAULT, "no memory");
}

/* Whatever stands there: counts are within their bounds, texts end, and a look takes little. */
static void any_bytes(void)
{
	unsigned int seed = 20261124;

	for (int i = 0; i < ROUNDS; i++) {
		put_jvm(i & 1);
		waits(1, monitors[0]);
		waits(2, monitors[1]);
		set(monitors[0] + 64, 8, i & 1 ? 103 : threads[3]);
		for (int j = rand_r(&seed) % 24; j >= 0; j--)
			set(BASE + rand_r(&seed) % (used - 8), 1 << rand_r(&seed) % 4,
			    rand_r(&seed) % 3 ? BASE + rand_r(&seed) % used : (__u64)rand_r(&seed) << 33);
		if (open_jvm() || look(rand_r(&seed)))
			continue;
		CHECK(found.count <= HOTSPOT_MONITORS && found.waiters <= HOTSPOT_WAITERS, "%u", found.waiters);
		for (__u32 j = 0; j < found.count; j++)
			CHECK(memchr(found.list[j].class, 0, HOTSPOT_CLASS) &&
				      memchr(found.list[j].owner_name, 0, HOTSPOT_THREAD),
			      "a text without end");
		CHECK(memory.left > TARGET_MOST / 2, "%u pages were read", TARGET_MOST - memory.left);
	}
}

int main(void)
{
	static const struct test tests[] = {
		TEST(owners_by_their_thread),      TEST(owners_by_their_number), TEST(many_waiters),
		TEST(more_monitors_than_are_told), TEST(lists_that_lie),         TEST(any_bytes),
	};

	return RUN_TESTS(tests);
}
