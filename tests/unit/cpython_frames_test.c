// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions of Python that a thread is in, read of memory that is made up as three versions have it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cpython/cpython_frames.h"
#include "tap.h"

#define BASE  0x7f0000000000ull
#define BYTES (64u << 10)
#define TYPE  0x7e0000001000ull
#define TID   77
/* glibc's, in struct pthread. */
#ifdef __aarch64__
#define PTHREAD_TID 208
#else
#define PTHREAD_TID 720
#endif

static __u8 image[BYTES];
static __u64 used;
static struct target_memory memory;
static struct cpython_known known;

static int fetch(void *context, __u64 address, __u8 *out)
{
	if (address < BASE || address - BASE > BYTES - TARGET_PAGE)
		return -EFAULT;
	memcpy(out, image + (address - BASE), TARGET_PAGE);
	return 0;
}

static __u64 room(__u64 bytes)
{
	const __u64 at = BASE + used;

	used += (bytes + 15) & ~15ull;
	return at;
}

static void set(__u64 address, __u64 size, __u64 value)
{
	memcpy(image + (address - BASE), &value, size);
}

static __u64 text(const char *string, __u64 behind)
{
	const __u64 at = room(behind + strlen(string) + 1);

	set(at + 16, 8, strlen(string));
	set(at + 32, 4, 1u << 5 | 1u << 6);
	strcpy((char *)image + (at + behind - BASE), string);
	return at;
}

/* Where a version has what, in words of this test's own. */
struct version {
	__u32 minor;
	__u64 interpreters, threads, thread, cframe, frame, code, back, owner, name, file, text;
};

static const struct version old = {9, 32, 8, 176, 0, 24, 32, 24, 0, 112, 104, 48};
static const struct version middle = {12, 40, 72, 144, 56, 0, 0, 8, 70, 128, 112, 40};

static void begin(void)
{
	memset(image, 0, sizeof(image));
	memset(&known, 0, sizeof(known));
	used = TARGET_PAGE;
	memory.fetch = fetch;
	target_begin(&memory);
}

static __u64 code_of(const struct version *version, const char *name)
{
	const __u64 at = room(256);

	set(at + 8, 8, TYPE);
	set(at + version->name, 8, text(name, version->text));
	set(at + version->file, 8, text("/srv/app.py", version->text));
	return at;
}

static __u64 frame_of(const struct version *version, const char *name, __u64 back)
{
	const __u64 at = room(128);

	set(at + version->code, 8, code_of(version, name));
	set(at + version->back, 8, back);
	return at;
}

/* A thread in a frame, before another one in the list. */
static __u64 state_of(const struct version *version, __u64 id, __u64 frame, __u64 next)
{
	const __u64 at = room(256);
	__u64 has = at;

	if (version->cframe) {
		has = room(64);
		set(at + version->cframe, 8, has);
	}
	set(has + version->frame, 8, frame);
	set(at + version->thread, 8, id);
	set(at + 8, 8, next);
	return at;
}

static __u64 runtime_of(const struct version *version, __u64 first)
{
	const __u64 runtime = room(1024), interpreter = room(512);

	set(runtime + version->interpreters, 8, interpreter);
	set(interpreter + version->threads, 8, first);
	return runtime;
}

static int read_of(const struct cpython_interpreter *interpreter, const struct cpython_thread *thread,
		   struct cpython_frames *found)
{
	target_begin(&memory);
	return cpython_frames_read(&memory, &known, 1, interpreter, thread, found);
}

static int read_thread(__u64 runtime, __u32 minor, __u32 tid, struct cpython_frames *found)
{
	const struct cpython_interpreter interpreter = {1, runtime, TYPE};
	const struct cpython_thread thread = {.minor = minor, .tid = tid};

	return read_of(&interpreter, &thread, found);
}

static int read_frames(__u64 runtime, __u32 minor, struct cpython_frames *found)
{
	return read_thread(runtime, minor, TID, found);
}

static void a_thread_by_its_id(void)
{
	struct cpython_frames found;
	__u64 entry, inner, other, runtime;

	begin();
	/* Between them is the frame of a call from C, which is no function. */
	entry = frame_of(&middle, "shim", frame_of(&middle, "main", 0));
	set(entry + middle.owner, 1, 3);
	inner = frame_of(&middle, "Pool.borrow", entry);
	other = state_of(&middle, TID + 1, frame_of(&middle, "other", 0), state_of(&middle, TID, inner, 0));
	runtime = runtime_of(&middle, other);
	CHECK(!read_frames(runtime, 12, &found), "nothing read");
	CHECK(found.count == 2, "%u frames", found.count);
	CHECK(!strcmp(found.list[0].name, "py::Pool.borrow:/srv/app.py"), "%s", found.list[0].name);
	CHECK(!strcmp(found.list[1].name, "py::main:/srv/app.py"), "%s", found.list[1].name);
	/* The second time from what is known. */
	CHECK(!read_frames(runtime, 12, &found) && found.count == 2, "%u frames", found.count);
	/* It is another thread's by now. */
	set(known.threads[TID % CPYTHON_KNOWN_THREADS].state + middle.thread, 8, TID + 5);
	CHECK(read_frames(runtime, 12, &found) == -ENOENT, "a thread that is gone");
}

static __u64 pthread_of(__u32 tid)
{
	const __u64 at = room(1024);

	set(at + PTHREAD_TID, 4, tid);
	return at;
}

static void a_thread_by_its_struct_pthread(void)
{
	struct cpython_frames found;
	__u64 states, runtime;

	begin();
	/* A thread without Python has its stack right below that of one with it. */
	states = state_of(&old, pthread_of(TID + 1), frame_of(&old, "main", 0), 0);
	runtime = runtime_of(&old, states);
	CHECK(read_frames(runtime, 9, &found) == -ENOENT, "another thread's: %s", found.list[0].name);
	states = state_of(&old, pthread_of(TID), frame_of(&old, "second", 0), states);
	states = state_of(&old, pthread_of(TID + 2), frame_of(&old, "first", 0), states);
	runtime = runtime_of(&old, states);
	CHECK(!read_frames(runtime, 9, &found) && !strcmp(found.list[0].name, "py::second:/srv/app.py"), "%s",
	      found.list[0].name);
}

/* On the way to one thread others are passed, and found at once then: the list may be long. */
static void threads_that_were_passed(void)
{
	const struct version *const versions[] = {&old, &middle};
	struct cpython_frames found;

	for (int i = 0; i < 2; i++) {
		const struct version *version = versions[i];
		__u64 ids[2] = {TID + 1, TID}, states, runtime;

		begin();
		for (int j = 0; i == 0 && j < 2; j++)
			ids[j] = pthread_of(ids[j]);
		states = state_of(version, ids[1], frame_of(version, "wanted", 0), 0);
		states = state_of(version, ids[0], frame_of(version, "passed", 0), states);
		runtime = runtime_of(version, states);
		CHECK(!read_frames(runtime, version->minor, &found), "nothing read");
		/* The list is gone. */
		set(runtime + version->interpreters, 8, 0);
		CHECK(!read_thread(runtime, version->minor, TID + 1, &found) &&
			      !strcmp(found.list[0].name, "py::passed:/srv/app.py"),
		      "3.%u: %s", version->minor, found.list[0].name);
	}
}

static void a_function_by_a_pointer_into_its_code(void)
{
	const struct cpython_interpreter interpreter = {1, BASE, TYPE};
	struct cpython_thread thread = {.minor = 12};
	struct cpython_frames found;
	__u64 code;

	begin();
	code = code_of(&middle, "first");
	set(code + 16, 8, 20);
	thread.word = code + 192 + 39;
	CHECK(!read_of(&interpreter, &thread, &found) && found.count == 1 && found.list[0].code == code, "not found");
	CHECK(found.list[0].size == 192 + 40, "%llu bytes", (unsigned long long)found.list[0].size);
	thread.word = code + 192 + 40;
	CHECK(read_of(&interpreter, &thread, &found) == -ENOENT && !found.count, "behind its end");
	/* Before 3.11 the instructions are elsewhere. */
	code = code_of(&old, "older");
	thread = (struct cpython_thread){.minor = 9, .word = code};
	CHECK(!read_of(&interpreter, &thread, &found) && found.list[0].code == code, "not found");
	thread.word = code + 32;
	CHECK(read_of(&interpreter, &thread, &found) == -ENOENT, "within it");
}

/* A child of a fork has its parent's addresses, and may load other code there. */
static void a_child_of_a_fork(void)
{
	const struct cpython_thread thread = {.minor = 12, .tid = TID};
	struct cpython_interpreter interpreter = {1, 0, TYPE};
	struct cpython_frames found;
	__u64 frame, code;

	begin();
	frame = frame_of(&middle, "parent", 0);
	interpreter.runtime = runtime_of(&middle, state_of(&middle, TID, frame, 0));
	CHECK(!read_of(&interpreter, &thread, &found), "nothing read");
	memcpy(&code, image + (frame + middle.code - BASE), 8);
	set(code + middle.name, 8, text("child", middle.text));
	interpreter.number = 2;
	CHECK(!read_of(&interpreter, &thread, &found) && !strcmp(found.list[0].name, "py::child:/srv/app.py"), "%s",
	      found.list[0].name);
}

/* Where 3.13 and 3.14 tell what; and what: here as 3.12 has it, and where the first interpreter is. */
#define TOLD 16
static const __u16 told_at[][TOLD] = {
	{40, 72, 64, 168, 200, 184, 240, 232, 264, 360, 280, 296, 344, 552, 544, 560},
	{40, 72, 64, 192, 224, 208, 264, 256, 288, 408, 320, 336, 384, 632, 624, 640},
};
static const __u16 told[TOLD] = {768, 72, 0, 8, 144, 56, 0, 8, 70, 8, 112, 128, 192, 16, 32, 40};

static void versions_that_tell_their_layout(void)
{
	for (__u32 minor = 13; minor <= 14; minor++) {
		struct version newest = middle;
		struct cpython_frames found;
		__u64 runtime, frame, code;

		begin();
		newest.interpreters = 768;
		newest.cframe = 0;
		newest.frame = 56;
		frame = frame_of(&newest, "work", 0);
		runtime = runtime_of(&newest, state_of(&newest, TID, frame, 0));
		CHECK(read_frames(runtime, minor, &found) == -ENODATA, "a layout that is not there");
		memcpy(image + (runtime - BASE), "xdebugpy", 8);
		set(runtime + 8, 8, 0x030000f0 | minor << 16);
		for (int i = 0; i < TOLD; i++)
			set(runtime + told_at[minor - 13][i], 8, told[i]);
		CHECK(!read_frames(runtime, minor, &found) && !strcmp(found.list[0].name, "py::work:/srv/app.py"),
		      "3.%u: %s", minor, found.list[0].name);
		/* Who counts the reference is in the pointer. */
		memcpy(&code, image + (frame + newest.code - BASE), 8);
		set(frame + newest.code, 8, code | 1);
		CHECK(!read_frames(runtime, minor, &found) && found.list[0].code == code, "a pointer with a mark");
		set(runtime + 8, 8, 0x030000f0 | (minor + 1) << 16);
		CHECK(read_frames(runtime, minor, &found) == -ENODATA, "another version's layout");
	}
}

static void versions_that_are_not_known(void)
{
	struct cpython_frames found;
	__u64 runtime;

	begin();
	runtime = runtime_of(&middle, 0);
	CHECK(read_frames(runtime, 15, &found) == -ENODATA && read_frames(runtime, 7, &found) == -ENODATA,
	      "versions that are not known");
}

static void what_is_forged(void)
{
	struct cpython_frames found;
	__u64 frame, state, runtime, interpreter, code;

	begin();
	/* Lists without an end; a code object of another type; a name that is not to be shown. */
	frame = frame_of(&middle, "loop", 0);
	set(frame + middle.back, 8, frame);
	state = state_of(&middle, TID, frame, 0);
	runtime = runtime_of(&middle, state);
	CHECK(!read_frames(runtime, 12, &found) && found.count == CPYTHON_FRAMES, "%u frames", found.count);
	set(state + middle.thread, 8, TID + 1);
	set(state + 8, 8, state);
	CHECK(read_frames(runtime, 12, &found) == -ENOENT, "a list of threads without an end");
	/* Each further interpreter has that list again. */
	memcpy(&interpreter, image + (runtime + middle.interpreters - BASE), 8);
	set(interpreter, 8, interpreter);
	CHECK(read_frames(runtime, 12, &found) == -ENOENT, "a list of interpreters without an end");

	code = code_of(&middle, "a\nb");
	frame = room(128);
	set(frame + middle.code, 8, code);
	memset(&known, 0, sizeof(known));
	runtime = runtime_of(&middle, state_of(&middle, TID, frame, 0));
	CHECK(read_frames(runtime, 12, &found) == -EINVAL && !found.count, "a name with a line's end");
	set(code + 8, 8, TYPE + 8);
	CHECK(read_frames(runtime, 12, &found) == -EINVAL, "no code");
	memset(&known, 0, sizeof(known));
	CHECK(read_frames(0x1000, 12, &found) == -EFAULT, "no memory");
}

static void a_long_path_keeps_its_end(void)
{
	char path[400];
	struct cpython_frames found;
	__u64 frame, runtime;

	begin();
	memset(path, 'a', sizeof(path));
	strcpy(path + sizeof(path) - sizeof("/app.py"), "/app.py");
	frame = frame_of(&middle, "work", 0);
	set(BASE + used, 8, 0);
	runtime = runtime_of(&middle, state_of(&middle, TID, frame, 0));
	{
		__u64 code;

		memcpy(&code, image + (frame + middle.code - BASE), 8);
		set(code + middle.file, 8, text(path, middle.text));
	}
	CHECK(!read_frames(runtime, 12, &found), "nothing read");
	CHECK(!strncmp(found.list[0].name, "py::work:aaa", 12), "%s", found.list[0].name);
	CHECK(!strcmp(found.list[0].name + strlen(found.list[0].name) - 7, "/app.py"), "%s", found.list[0].name);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_thread_by_its_id),          TEST(a_thread_by_its_struct_pthread),
		TEST(threads_that_were_passed),    TEST(a_function_by_a_pointer_into_its_code),
		TEST(a_child_of_a_fork),           TEST(versions_that_tell_their_layout),
		TEST(versions_that_are_not_known), TEST(what_is_forged),
		TEST(a_long_path_keeps_its_end),
	};

	return RUN_TESTS(tests);
}
