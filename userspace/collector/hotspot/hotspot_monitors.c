// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "hotspot/hotspot_monitors.h"
#include "hotspot/hotspot_objects.h"

/* A JVM with more threads is none. */
#define MOST_THREADS (1u << 20)
/* Objects that a thread has locked without a monitor, at most. */
#define MOST_LOCKED 16
/* What was read is believed so long: a thread may get another name, an ObjectMonitor another object. */
#define KNOWN_NS 10000000000ull

/* The threads of a JVM: an array of pointers, or, until JDK 11, what was read of its list. */
struct threads {
	__u32 count;
	__u64 array;
	__u64 listed[HOTSPOT_THREADS];
};

/* One look. */
struct look {
	const struct hotspot_layout *layout;
	struct target_memory *memory;
	struct hotspot_known *known;
	__u64 now_ns;
	struct threads threads;
};

static int open_threads(struct look *look)
{
	const struct hotspot_layout *layout = look->layout;
	struct threads *threads = &look->threads;
	__u64 at, count;
	int err;

	if (hotspot_has(layout, THREADS_LIST)) {
		err = hotspot_member(layout, look->memory, 0, THREADS_LIST, &at);
		err = err ?: hotspot_member(layout, look->memory, at, THREADS_COUNT, &count);
		err = err ?: hotspot_member(layout, look->memory, at, THREADS_ARRAY, &threads->array);
		threads->count = err ? 0 : count;
		return err ?: count > MOST_THREADS ? -EINVAL : 0;
	}
	err = hotspot_member(layout, look->memory, 0, THREADS_FIRST, &at);
	while (!err && at && threads->count < HOTSPOT_THREADS) {
		threads->listed[threads->count++] = at;
		err = hotspot_member(layout, look->memory, at, THREAD_NEXT, &at);
	}
	return err == -ENOENT ? -ENODATA : err;
}

/* Some of the threads, from this one on, and from the first again behind the last. */
static int threads_at(struct look *look, __u32 first, __u32 count, __u64 *out)
{
	const struct threads *threads = &look->threads;
	int err = 0;

	for (__u32 i = 0; !err && i < count; i++) {
		const __u32 place = (first + (__u64)i) % threads->count;

		if (threads->array)
			err = target_word(look->memory, threads->array + place * sizeof(*out), &out[i]);
		else
			out[i] = threads->listed[place];
	}
	return err;
}

/* Words of structures that lie apart. */
static int members(struct look *look, const __u64 *bases, __u32 count, __u64 offset, __u64 *out)
{
	__u64 addresses[HOTSPOT_LOOKED];

	for (__u32 i = 0; i < count; i++)
		addresses[i] = bases[i] + offset;
	return target_words(look->memory, addresses, count, out);
}

/* Where a thread is kept of those that are known. */
static __u32 place_of(__u64 thread)
{
	return thread / 64 % HOTSPOT_KNOWN_THREADS;
}

/* Their ids, 0 where they are not known. */
static void thread_ids(struct look *look, const __u64 *threads, __u32 count, __u32 *out)
{
	__u64 unknown[HOTSPOT_WAITERS], native[HOTSPOT_WAITERS], tids[HOTSPOT_WAITERS];
	struct hotspot_known *known = look->known;
	__u32 missing = 0;

	for (__u32 i = 0; i < count; i++)
		if (known->threads[place_of(threads[i])].at != threads[i] ||
		    look->now_ns - known->threads[place_of(threads[i])].ns > KNOWN_NS)
			unknown[missing++] = threads[i];
	if (!hotspot_has(look->layout, THREAD_OSTHREAD) || !hotspot_has(look->layout, OSTHREAD_ID) ||
	    members(look, unknown, missing, look->layout->fields[THREAD_OSTHREAD], native) ||
	    members(look, native, missing, look->layout->fields[OSTHREAD_ID], tids))
		missing = 0;
	for (__u32 i = 0; i < missing; i++) {
		const __u32 place = place_of(unknown[i]);

		known->threads[place].at = unknown[i];
		known->threads[place].ns = look->now_ns;
		known->threads[place].tid = tids[i];
	}
	for (__u32 i = 0; i < count; i++) {
		const __u32 place = place_of(threads[i]);

		out[i] = known->threads[place].at == threads[i] ? known->threads[place].tid : 0;
	}
}

/* How a thread is known as a monitor's owner: the word that the monitor has, and the object. */
struct owned {
	__u64 owner, object;
};

/* Whether a thread has locked an object, which is noted in the thread alone until it lets go of it (JDK 21). */
static bool has_locked(struct look *look, __u64 thread, __u64 top, __u64 object)
{
	__u64 at = look->layout->fields[THREAD_LOCK_STACK] + look->layout->fields[LOCK_STACK_BASE], locked;

	/* The top is counted from where the thread's structure begins. */
	for (int i = 0; i < MOST_LOCKED && at + sizeof(locked) <= (__u32)top; i++, at += sizeof(locked))
		if (!target_word(look->memory, thread + at, &locked) && locked == object)
			return true;
	return false;
}

/* Of some threads, which of them is the owner; count: none is. */
static __u32 owner_among(struct look *look, const __u64 *threads, __u32 count, const struct owned *owned)
{
	const struct hotspot_layout *layout = look->layout;
	__u64 words[TARGET_WORDS], more[TARGET_WORDS];

	if (hotspot_has(layout, THREAD_OWNER_ID)) {
		if (!members(look, threads, count, layout->fields[THREAD_OWNER_ID], words))
			for (__u32 i = 0; i < count; i++)
				if (words[i] == owned->owner)
					return i;
	} else {
		for (__u32 i = 0; i < count; i++)
			if (threads[i] == owned->owner)
				return i;
		/* A place on its stack, while it has had the monitor since before there was one. */
		if (hotspot_has(layout, THREAD_STACK_BASE) && hotspot_has(layout, THREAD_STACK_SIZE) &&
		    !members(look, threads, count, layout->fields[THREAD_STACK_BASE], words) &&
		    !members(look, threads, count, layout->fields[THREAD_STACK_SIZE], more))
			for (__u32 i = 0; i < count; i++)
				if (owned->owner < words[i] && words[i] - owned->owner <= more[i])
					return i;
	}
	if (owned->object && hotspot_has(layout, THREAD_LOCK_STACK) && hotspot_has(layout, LOCK_STACK_TOP) &&
	    hotspot_has(layout, LOCK_STACK_BASE) &&
	    !members(look, threads, count, layout->fields[THREAD_LOCK_STACK] + layout->fields[LOCK_STACK_TOP], words))
		for (__u32 i = 0; i < count; i++)
			if (has_locked(look, threads[i], words[i], owned->object))
				return i;
	return count;
}

/* 0: nobody, or nobody who is known. */
static __u64 find_owner(struct look *look, const struct owned *owned)
{
	__u64 threads[TARGET_WORDS];

	for (__u32 first = 0; first < look->threads.count && first < HOTSPOT_THREADS; first += TARGET_WORDS) {
		const __u32 rest = look->threads.count - first, count = rest < TARGET_WORDS ? rest : TARGET_WORDS;
		__u32 found;

		if (threads_at(look, first, count, threads))
			return 0;
		found = owner_among(look, threads, count, owned);
		if (found < count)
			return threads[found];
	}
	return 0;
}

/* "": it cannot be read. */
static void name_owner(struct look *look, __u64 thread, __u64 owner, char *out, size_t size)
{
	const enum hotspot_field runs = hotspot_has(look->layout, THREAD_VIRTUAL) ? THREAD_VIRTUAL : THREAD_OBJECT;
	const __u32 place = (thread / 64 ^ owner) % HOTSPOT_KNOWN_NAMES;
	struct hotspot_object object;
	char class[HOTSPOT_CLASS];
	__u64 handle;

	if (look->known->names[place].at != thread || look->known->names[place].owner != owner ||
	    look->now_ns - look->known->names[place].ns > KNOWN_NS) {
		*out = 0;
		if (hotspot_member(look->layout, look->memory, thread, runs, &handle) ||
		    hotspot_object_of(look->layout, look->memory, handle, &object, class, sizeof(class)) ||
		    hotspot_thread_name(look->layout, look->memory, &object, out, size)) {
			*out = 0;
			return;
		}
		look->known->names[place].at = thread;
		look->known->names[place].owner = owner;
		look->known->names[place].ns = look->now_ns;
		memcpy(look->known->names[place].name, out, size);
	}
	memcpy(out, look->known->names[place].name, size);
}

/* Of its object; the object's address, or 0 where that was not asked for. */
static __u64 name_class(struct look *look, struct hotspot_monitor *monitor, __u64 handle, bool object_too)
{
	const __u32 place = monitor->address / 64 % HOTSPOT_KNOWN_NAMES;
	struct hotspot_object object;

	if (!object_too && look->known->monitors[place].address == monitor->address &&
	    look->now_ns - look->known->monitors[place].ns <= KNOWN_NS) {
		memcpy(monitor->class, look->known->monitors[place].class, sizeof(monitor->class));
		return 0;
	}
	if (hotspot_object_of(look->layout, look->memory, handle, &object, monitor->class, sizeof(monitor->class))) {
		*monitor->class = 0;
		return 0;
	}
	look->known->monitors[place].address = monitor->address;
	look->known->monitors[place].ns = look->now_ns;
	memcpy(look->known->monitors[place].class, monitor->class, sizeof(monitor->class));
	return object.at;
}

/* As far as it can be read. */
static void read_monitor(struct look *look, struct hotspot_monitor *monitor)
{
	const __u64 asked[] = {
		monitor->address + look->layout->fields[MONITOR_OBJECT],
		monitor->address + look->layout->fields[MONITOR_OWNER],
	};
	struct owned owned = {};
	__u64 words[2], thread;

	if (target_words(look->memory, asked, 2, words))
		return;
	owned.owner = words[1];
	name_class(look, monitor, words[0], false);
	thread = owned.owner ? find_owner(look, &owned) : 0;
	if (owned.owner && !thread) {
		owned.object = name_class(look, monitor, words[0], true);
		thread = owned.object ? find_owner(look, &owned) : 0;
	}
	if (!thread)
		return;
	thread_ids(look, &thread, 1, &monitor->owner);
	name_owner(look, thread, owned.owner, monitor->owner_name, sizeof(monitor->owner_name));
}

/* The monitor's place in the list; HOTSPOT_MONITORS: the look tells of no more. */
static __u32 add_waiting(struct hotspot_monitors *out, __u64 monitor)
{
	__u32 place = 0;

	while (place < out->count && out->list[place].address != monitor)
		place++;
	if (place == HOTSPOT_MONITORS) {
		out->untold++;
		return place;
	}
	if (place == out->count)
		out->list[out->count++] = (struct hotspot_monitor){.address = monitor};
	out->list[place].waiting++;
	return place;
}

/* The threads that wait, and where the next look begins: at the first of them that was not told. */
static int read_waiters(struct look *look, __u32 cursor, struct hotspot_monitors *out)
{
	__u64 threads[HOTSPOT_LOOKED], pending[HOTSPOT_LOOKED], waiters[HOTSPOT_WAITERS];
	__u32 tids[HOTSPOT_WAITERS], next = out->looked_at;
	int err = threads_at(look, cursor, out->looked_at, threads);

	err = err ?: members(look, threads, out->looked_at, look->layout->fields[THREAD_PENDING], pending);
	for (__u32 i = 0; !err && i < out->looked_at; i++) {
		__u32 place;

		if (!pending[i])
			continue;
		place = add_waiting(out, pending[i]);
		if (place == HOTSPOT_MONITORS || out->waiters == HOTSPOT_WAITERS) {
			next = i < next ? i : next;
			continue;
		}
		waiters[out->waiters] = threads[i];
		out->waiter[out->waiters++].monitor = place;
	}
	out->cursor = (cursor + (__u64)next) % look->threads.count;
	thread_ids(look, waiters, out->waiters, tids);
	for (__u32 i = 0; i < out->waiters; i++)
		out->waiter[i].tid = tids[i];
	return err;
}

int hotspot_monitors_read(const struct hotspot_layout *layout, struct target_memory *memory,
			  struct hotspot_known *known, __u64 now_ns, __u32 cursor, struct hotspot_monitors *out)
{
	struct look look = {.layout = layout, .memory = memory, .known = known, .now_ns = now_ns};
	int err;

	memset(out, 0, sizeof(*out));
	if (!hotspot_has(layout, THREAD_PENDING) || !hotspot_has(layout, MONITOR_OBJECT) ||
	    !hotspot_has(layout, MONITOR_OWNER))
		return -ENODATA;
	err = open_threads(&look);
	if (err || !look.threads.count)
		return err;
	out->threads = look.threads.count;
	out->looked_at = look.threads.count < HOTSPOT_LOOKED ? look.threads.count : HOTSPOT_LOOKED;
	err = read_waiters(&look, cursor, out);
	for (__u32 i = 0; !err && i < out->count; i++)
		read_monitor(&look, &out->list[i]);
	return err;
}
