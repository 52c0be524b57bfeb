// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/small_file.h"
#include "naming/python_stacks.h"

/* What was read of a thread is its own for so long, and it is read again after less. */
#define KEPT_NS  1000000000ull
#define FRESH_NS 50000000ull

bool python_interpreter(const char *path, __u32 *minor, bool *library)
{
	const char *name = strrchr(path, '/');
	char *end;

	if (!name)
		return false;
	name++;
	*library = !strncmp(name, "lib", 3);
	name += *library ? 3 : 0;
	if (strncmp(name, "python3.", strlen("python3.")))
		return false;
	name += strlen("python3.");
	*minor = strtoul(name, &end, 10);
	return end != name;
}

static bool sleeps_there(const struct python_asked *asked)
{
	char path[PROC_PATH], line[256];
	__u64 sp, pc;

	proc_path(path, sizeof(path), asked->tgid, "task/%u/syscall", asked->tid);
	return !first_line(path, line, sizeof(line)) && proc_call_place(line, &sp, &pc) && sp == asked->sp;
}

static void look(const struct python_asked *asked, struct python_thread *thread)
{
	struct cpython_thread of = {.minor = asked->minor, .sp = asked->sp};
	static struct cpython_frames found;

	if (!sleeps_there(asked))
		return;
	of.tid = thread->tgid == asked->tgid && thread->tid == asked->tid ? thread->native
									  : proc_own_id(asked->tgid, asked->tid);
	if (naming_client_python(asked->client, asked->object, asked->tgid, asked->interpreter, &of, &found) ||
	    !sleeps_there(asked))
		return;
	*thread = (struct python_thread){
		.tgid = asked->tgid,
		.tid = asked->tid,
		.native = of.tid,
		.count = found.count,
		.sp = asked->sp,
		.ns = now_ns(),
	};
	for (__u32 i = 0; i < found.count; i++) {
		const struct naming_place place = {.distance = found.list[i].code};

		thread->codes[i] = found.list[i].code;
		user_symbol_cache_put(asked->names, asked->interpreter->number, &place, found.list[i].name, 0);
	}
}

static bool is_of(const struct python_thread *thread, const struct python_asked *asked, __u64 now, __u64 most_ns)
{
	return thread->tgid == asked->tgid && thread->tid == asked->tid && thread->sp == asked->sp &&
	       now - thread->ns < most_ns;
}

int python_stacks_add(struct python_stacks *stacks, const struct python_asked *asked, __u64 *frames, int count)
{
	struct python_thread *thread = &stacks->threads[asked->tid % PYTHON_THREADS];
	const __u64 now = now_ns();

	if (now >= stacks->next_ns && !is_of(thread, asked, now, FRESH_NS)) {
		look(asked, thread);
		stacks->looks++;
	}
	if (!is_of(thread, asked, now_ns(), KEPT_NS))
		return count;
	if (count > NAMING_FRAMES - CPYTHON_FRAMES)
		count = NAMING_FRAMES - CPYTHON_FRAMES;
	memcpy(frames + count, thread->codes, thread->count * sizeof(*frames));
	return count + thread->count;
}
