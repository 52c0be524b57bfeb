// SPDX-License-Identifier: GPL-2.0-or-later
/* Which functions of Python a copied stack is told of, where the thread may be in another one by now. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "base/small_file.h"
#include "naming/python_stacks.h"
#include "tap.h"

#define FIRST  0x7e0000000000ull
#define SECOND 0x7e0000100000ull
#define CALLER 0x7e0000200000ull
#define OTHER  0x7e0000300000ull
#define SIZE   200
#define FORGED 2

static struct naming_runtime interpreter = {.number = 1};
static struct python_stacks stacks;
static __u8 copy[4096];
static __u64 caller, sp;
static pid_t tid;

/* The thread is in FIRST, as its stack has it. */
int naming_client_python(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			 const struct cpython_thread *thread, struct cpython_frames *frames)
{
	if (jvm->number == FORGED) {
		/* More than LONG_NS. */
		usleep(150000);
		return -ETIMEDOUT;
	}
	memset(frames, 0, sizeof(*frames));
	if (thread->word && thread->word - FIRST >= SIZE && thread->word - SECOND >= SIZE)
		return -ENOENT;
	frames->count = thread->word ? 1 : 2;
	frames->list[0].code = thread->word && thread->word - SECOND < SIZE ? SECOND : FIRST;
	frames->list[0].size = SIZE;
	frames->list[1].code = caller;
	return 0;
}

void user_symbol_cache_put(struct user_symbol_cache *cache, __u64 object, const struct naming_place *place,
			   const char *name, __u64 offset)
{
}

static void *sleeper(void *context)
{
	volatile __u64 words[64];

	for (int i = 0; i < 64; i++)
		words[i] = FIRST + 100;
	__atomic_store_n(&tid, gettid(), __ATOMIC_RELEASE);
	for (;;)
		pause();
	return (void *)words[0];
}

static void put_to_sleep(void)
{
	char path[PROC_PATH], line[256];
	pthread_t thread;
	__u64 pc;

	sp = 0;
	pthread_create(&thread, NULL, sleeper, NULL);
	while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
		usleep(1000);
	proc_path(path, sizeof(path), getpid(), "task/%u/syscall", tid);
	while (first_line(path, line, sizeof(line)) || !proc_call_place(line, &sp, &pc))
		usleep(1000);
	patience_read(getpid(), sp, copy, sizeof(copy) / 4);
}

/* Word for word: whatever points into FIRST points into another code. */
static void point_to(__u64 from, __u64 to)
{
	for (size_t i = 0; i < sizeof(copy); i += 8) {
		__u64 word;

		memcpy(&word, copy + i, 8);
		if (word == from)
			memcpy(copy + i, &to, 8);
	}
}

/* Behind a frame of C. */
static int add_of(__u32 thread, bool look, bool read, __u64 *frames)
{
	const struct python_asked asked = {.interpreter = &interpreter,
					   .minor = 12,
					   .tgid = getpid(),
					   .tid = thread,
					   .sp = sp,
					   .stack = copy,
					   .may_look = look,
					   .may_read_word = read,
					   .size = sizeof(copy)};

	frames[0] = 1;
	return python_stacks_add(&stacks, &asked, frames, 1);
}

static int add(__u64 *frames)
{
	return add_of(tid, true, true, frames);
}

static void a_copy_of_another_function(void)
{
	__u64 frames[NAMING_FRAMES];
	int count;

	caller = CALLER;
	count = add(frames);
	CHECK(count == 3 && frames[1] == FIRST && frames[2] == CALLER, "%d frames, of %llx", count,
	      (unsigned long long)frames[1]);
	/* The thread sleeps at the same place as ever, but this copy is of its second function. */
	point_to(FIRST + 100, SECOND + 50);
	count = add(frames);
	CHECK(count == 2 && frames[1] == SECOND, "%d frames, of %llx", count, (unsigned long long)frames[1]);
	/* And this one is of none that is known. */
	point_to(SECOND + 50, OTHER);
	count = add(frames);
	CHECK(count == 1, "%d frames", count);
	point_to(OTHER, FIRST + 100);
}

static void a_function_of_several_callers(void)
{
	__u64 frames[NAMING_FRAMES];
	int count;

	memset(&stacks, 0, sizeof(stacks));
	caller = CALLER;
	CHECK(add(frames) == 3, "no caller");
	/* Until it is looked at again. */
	caller = OTHER;
	usleep(60000);
	count = add(frames);
	CHECK(count == 2 && frames[1] == FIRST, "%d frames", count);
}

/* Of very many threads few are looked at. */
static void a_thread_that_nobody_looked_at(void)
{
	__u64 frames[NAMING_FRAMES];

	memset(&stacks, 0, sizeof(stacks));
	CHECK(add_of(tid + 1, false, false, frames) == 1, "nothing is known yet");
	CHECK(add(frames) > 1, "no look");
	CHECK(add_of(tid + 1, false, false, frames) == 2 && frames[1] == FIRST, "%llx", (unsigned long long)frames[1]);
	CHECK(stacks.looks == 1 && !stacks.words_read, "it was read");
	/* Of a function that nobody was seen in the code alone is read, once. */
	point_to(FIRST + 100, SECOND + 50);
	CHECK(add_of(tid + 1, true, false, frames) == 1, "its place is known");
	CHECK(add_of(tid + 1, true, true, frames) == 2 && frames[1] == SECOND, "%llx", (unsigned long long)frames[1]);
	CHECK(add_of(tid + 2, false, false, frames) == 2 && frames[1] == SECOND, "%llx", (unsigned long long)frames[1]);
	CHECK(stacks.words_read == 1, "%llu words", (unsigned long long)stacks.words_read);
	point_to(SECOND + 50, FIRST + 100);
}

static void a_process_that_takes_long(void)
{
	const struct python_pause *pause = &stacks.pauses[FORGED % PYTHON_PAUSES];
	__u64 frames[NAMING_FRAMES];

	memset(&stacks, 0, sizeof(stacks));
	interpreter.number = FORGED;
	CHECK(add(frames) == 1, "it has functions");
	CHECK(stacks.looks == 1 && pause->number == FORGED && pause->next_ns, "it does not pause");
	CHECK(add(frames) == 1 && stacks.looks == 1, "it is read while it pauses");
	/* A reader that got no CPU for once must not take all functions from a recording of seconds. */
	CHECK(pause->next_ns < now_ns() + 2000000000ull, "it pauses for %llu ns",
	      (unsigned long long)(pause->next_ns - now_ns()));
	for (int i = 0; i < 6; i++) {
		stacks.pauses[FORGED % PYTHON_PAUSES].next_ns = 0;
		add(frames);
	}
	CHECK(pause->next_ns > now_ns() + 4000000000ull, "it pauses for %llu ns again and again",
	      (unsigned long long)(pause->next_ns - now_ns()));
	interpreter.number = 1;
	CHECK(add(frames) > 1, "no look at its neighbour");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_copy_of_another_function),
		TEST(a_function_of_several_callers),
		TEST(a_thread_that_nobody_looked_at),
		TEST(a_process_that_takes_long),
	};

	put_to_sleep();
	return RUN_TESTS(tests);
}
