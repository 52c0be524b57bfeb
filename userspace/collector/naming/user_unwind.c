// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "naming/python_stacks.h"
#include "naming/unwind_memo.h"
#include "naming/user_modules.h"
#include "naming/user_symbol_cache.h"
#include "naming/user_unwind.h"

#define PROCESSES 64
#define OBJECTS   64
#define CODE      1024 /* mappings of code of one process; those beyond end a stack */
/* Mappings are read again after this, less often the longer they stay, and sooner if code is not in them. */
#define REFRESH_NS 1000000000ull
#define STALE_NS   10000000000ull
/* Where a stack tells that another program runs, only code that took the place of other code is missed. */
#define PROGRAM_STALE_NS 60000000000ull
#define MISSED_NS        50000000ull
/* A JVM that could not be read is tried again after this. */
#define REFUSED_NS 10000000000ull
/* Monitors are looked at so often at most, less often where nobody waits, and so long after a stack of the JVM. */
#define LOOK_NS        50000000ull
#define SELDOM_LOOK_NS 1000000000ull
#define LOOK_FOR_NS    500000000ull
/* A look's CPU time is this part of the time to the next one, at most. */
#define LOOK_COST 100
/* The same of functions of Python: of what threads are in, and of single ones. */
#define PYTHON_COST 128

struct code {
	__u64 start, end, offset, inode;
	__u32 major, minor;
};

struct process {
	__u32 tgid; /* 0: free */
	__u64 used;
	__u64 program; /* of its last stack; 0: not known */
	__u64 read_ns;
	__u64 refresh_ns; /* they are read again so long after it */
	struct code *code;
	int count;
	__u64 mappings; /* a hash of them */
	__u64 layout;   /* of unwind_memo.h; 0: some of its code is no file's, and may be another's elsewhere */
	struct naming_runtime jvm;    /* number 0: it runs none */
	struct naming_runtime python; /* likewise */
	__u32 python_minor;           /* of its version */
	bool python_library;
	__u64 jvm_refused_ns; /* 0: it was read, or not yet */
	__u64 unwound_ns;     /* when its last stack was */
	__u64 look_ns;        /* when its monitors are to be looked at again, */
	__u64 look_after_ns;  /* which is so long after the last look, */
	__u32 cursor;         /* at the threads from this one on */
};

struct object {
	__u64 inode; /* 0: free */
	__u32 major, minor;
	__u64 used;
	__u64 object; /* of naming_client.h; 0: it could not be opened */
};

struct user_unwind {
	struct naming_client *client;
	struct naming_stack asked; /* of the stack that is being unwound */
	struct process processes[PROCESSES];
	struct object objects[OBJECTS];
	__u64 uses;
	struct unwind_memos memos;
	struct python_stacks python;
	__u64 numbers;                   /* that were given to JVMs and interpreters */
	struct user_symbol_cache *names; /* of their code and methods, by these numbers; NULL: no memory */
};

/* A stack as it was found. */
struct found_frames {
	__u64 *pc;
	int count;
	__u32 java, inlined; /* as of struct naming_frames */
	bool guessed;        /* some caller was found by a frame pointer alone, or none where there is no code */
	bool cut;            /* a register or a word that the next frame takes was not read */
};

struct user_unwind *user_unwind_open(struct naming_client *client)
{
	struct user_unwind *users = calloc(1, sizeof(*users));

	if (!users)
		return NULL;
	users->client = client;
	users->names = user_symbol_cache_open();
	return users;
}

void user_unwind_close(struct user_unwind *users)
{
	for (int i = 0; users && i < PROCESSES; i++)
		free(users->processes[i].code);
	if (users)
		user_symbol_cache_close(users->names);
	free(users);
}

/* Whether a file is HotSpot's, or one that was there until it was replaced. */
static bool is_libjvm(const char *path)
{
	const char *name = strrchr(path, '/');
	char cut[sizeof("libjvm.so") + 1];

	if (!name)
		return false;
	user_module_path(cut, sizeof(cut), name + 1);
	return !strcmp(cut, "libjvm.so") || !strcmp(name, "/libjvm.so (deleted)");
}

static void meet_jvm(struct user_unwind *users, struct process *process, const struct proc_map_line *map)
{
	if (process->jvm.number && process->jvm.start == map->start && process->jvm.file_offset == map->offset)
		return;
	process->jvm = (struct naming_runtime){++users->numbers, map->start, map->offset};
	process->jvm_refused_ns = 0;
}

static const struct code *code_at(const struct process *process, __u64 pc)
{
	int low = 0, high = process->count;

	while (low < high) {
		int middle = (low + high) / 2;

		if (pc < process->code[middle].start)
			high = middle;
		else if (pc >= process->code[middle].end)
			low = middle + 1;
		else
			return &process->code[middle];
	}
	return NULL;
}

/* The library has what the program does, where there is one. */
static void meet_python(struct user_unwind *users, struct process *process, const struct proc_map_line *map)
{
	__u32 minor;
	bool library;

	if (!python_interpreter(map->path, &minor, &library) ||
	    (process->python.number && process->python_library && !library))
		return;
	if (process->python.number && process->python.start == map->start && process->python.file_offset == map->offset)
		return;
	/* Its code may be in several parts: the first one of them. */
	if (process->python.number && library == process->python_library && code_at(process, process->python.start))
		return;
	process->python = (struct naming_runtime){++users->numbers, map->start, map->offset};
	process->python_minor = minor;
	process->python_library = library;
}

/* The kernel's own code is the same in all processes. */
static bool is_file_or_kernel(const struct proc_map_line *map)
{
	return map->inode || !strcmp(map->path, "[vdso]") || !strcmp(map->path, "[vsyscall]") ||
	       !strcmp(map->path, "[uprobes]");
}

static __u64 mixed(__u64 layout, const struct code *code)
{
	const __u64 words[] = {code->start, code->end, code->offset, code->inode, code->major, code->minor};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(*words); i++) {
		layout = (layout ^ words[i]) * 0x9e3779b97f4a7c15ull;
		layout ^= layout >> 32;
	}
	return layout;
}

static void read_code(struct user_unwind *users, struct process *process)
{
	FILE *file = patience_open_maps(process->tgid);
	const __u64 stale_ns = process->program ? PROGRAM_STALE_NS : STALE_NS;
	__u64 mappings = 1;
	bool shared = true;
	size_t capacity = 0;
	char *line = NULL;

	process->read_ns = now_ns();
	/* It is gone: what was read of it still holds for its last samples. */
	if (!file)
		return;
	process->count = 0;
	while (process->count < CODE && getline(&line, &capacity, file) > 0) {
		struct proc_map_line map;

		if (!proc_map_line_parse(line, &map) || map.access[2] != 'x')
			continue;
		process->code[process->count++] = (struct code){
			.start = map.start,
			.end = map.end,
			.offset = map.offset,
			.inode = map.inode,
			.major = map.major,
			.minor = map.minor,
		};
		mappings = mixed(mappings, &process->code[process->count - 1]);
		shared &= is_file_or_kernel(&map);
		if (map.inode && is_libjvm(map.path))
			meet_jvm(users, process, &map);
		else if (map.inode)
			meet_python(users, process, &map);
	}
	process->refresh_ns = mappings == process->mappings ? 2 * process->refresh_ns : REFRESH_NS;
	if (process->refresh_ns > stale_ns)
		process->refresh_ns = stale_ns;
	process->mappings = mappings;
	process->layout = shared && process->count < CODE ? mappings : 0;
	free(line);
	fclose(file);
}

/* Without a look at its mappings: NULL where they are not known. */
static struct process *known_process(struct user_unwind *users, __u32 tgid)
{
	for (int i = 0; i < PROCESSES; i++)
		if (users->processes[i].tgid == tgid)
			return &users->processes[i];
	return NULL;
}

static struct process *find_process(struct user_unwind *users, __u32 tgid)
{
	struct process *found = known_process(users, tgid);

	if (!found)
		found = users->processes;
	for (int i = 0; found->tgid != tgid && i < PROCESSES; i++)
		if (users->processes[i].used < found->used)
			found = &users->processes[i];
	if (!found->code)
		found->code = calloc(CODE, sizeof(*found->code));
	if (!found->code)
		return NULL;
	if (found->tgid != tgid) {
		found->tgid = tgid;
		found->count = 0;
		found->mappings = found->layout = 0;
		found->refresh_ns = REFRESH_NS;
		found->program = 0;
		found->jvm.number = found->python.number = 0;
		found->look_ns = 0;
		read_code(users, found);
	} else if (now_ns() - found->read_ns > found->refresh_ns) {
		read_code(users, found);
	}
	found->used = ++users->uses;
	return found;
}

static const struct code *find_code(struct user_unwind *users, struct process *process, __u64 pc)
{
	const struct code *code = code_at(process, pc);

	if (!code && now_ns() - process->read_ns > MISSED_NS) {
		read_code(users, process);
		code = code_at(process, pc);
	}
	return code;
}

static __u64 open_object(const struct user_unwind *users, __u32 tgid, const struct code *code)
{
	const struct user_module module = {
		.start = code->start,
		.inode = code->inode,
		.major = code->major,
		.minor = code->minor,
	};
	struct stat status;
	int fd = user_module_open(&module, tgid, &status);

	return fd < 0 ? 0 : naming_client_object(users->client, fd, &status);
}

/* 0: code without a file, or of a file that could not be opened. */
static __u64 object_of(struct user_unwind *users, __u32 tgid, const struct code *code)
{
	struct object *oldest = users->objects;

	if (!code->inode)
		return 0;
	for (int i = 0; i < OBJECTS; i++) {
		struct object *object = &users->objects[i];

		if (object->inode == code->inode && object->major == code->major && object->minor == code->minor) {
			oldest = object;
			if (!object->object || naming_client_has(users->client, object->object)) {
				object->used = ++users->uses;
				return object->object;
			}
			break;
		}
		if (object->used < oldest->used)
			oldest = object;
	}
	*oldest = (struct object){
		.inode = code->inode,
		.major = code->major,
		.minor = code->minor,
		.used = ++users->uses,
		.object = open_object(users, tgid, code),
	};
	return oldest->object;
}

/* Frames as long as they are in this code, by the helper; false: it cannot tell. */
static bool ask_helper(struct user_unwind *users, __u64 object, const struct code *code, int left,
		       struct naming_frames *found)
{
	struct naming_stack *asked = &users->asked;

	asked->start = code->start;
	asked->end = code->end;
	asked->file_offset = code->offset;
	asked->most = left;
	return object && !naming_client_unwind(users->client, object, asked, found) && found->count &&
	       found->count <= asked->most;
}

/* One frame of code without a file, which keeps frame pointers or ends the stack. */
static void step_frame_pointer(const struct naming_stack *asked, struct naming_frames *found)
{
	const struct unwind_stack copy = {.address = asked->address, .bytes = asked->bytes, .size = asked->size};
	bool called = asked->called;

	found->pc[0] = asked->state.pc;
	found->count = 1;
	found->state = asked->state;
	found->end = unwind_step_frame_pointer(&found->state, &copy, &called);
	found->called = called;
}

/* The object of the process's libjvm.so; 0: it runs none that can be read now. */
static __u64 jvm_of(struct user_unwind *users, struct process *process)
{
	const struct code *code;

	if (!process->jvm.number || (process->jvm_refused_ns && now_ns() - process->jvm_refused_ns < REFUSED_NS))
		return 0;
	code = code_at(process, process->jvm.start);
	return code ? object_of(users, process->tgid, code) : 0;
}

/* Frames as long as they are in code that the process's JVM made; false: it made none here. */
static bool ask_jvm(struct user_unwind *users, struct process *process, int left, struct naming_frames *found)
{
	const __u64 libjvm = jvm_of(users, process);
	int err;

	users->asked.most = left;
	if (!libjvm)
		return false;
	err = naming_client_hotspot(users->client, libjvm, process->tgid, &process->jvm, &users->asked, found);
	process->jvm_refused_ns = err && err != -ENOENT ? now_ns() : 0;
	return !err && found->count && found->count <= users->asked.most;
}

static void unwind(struct user_unwind *users, struct process *process, const struct user_stack *stack,
		   struct found_frames *out)
{
	struct naming_stack *asked = &users->asked;
	struct naming_frames found = {};

	memset(asked, 0, sizeof(*asked));
	unwind_begin(&asked->state, stack->pc, stack->registers);
	asked->address = unwind_stack_pointer(&asked->state);
	asked->size = stack->size < NAMING_STACK_BYTES ? stack->size : NAMING_STACK_BYTES;
	memcpy(asked->bytes, stack->bytes, asked->size);
	while (!found.end && out->count < NAMING_FRAMES) {
		const struct code *code = find_code(users, process, asked->state.pc);
		const int left = NAMING_FRAMES - out->count;
		__u64 object;

		/* No code: what was taken for a return address was none. */
		if (!code) {
			out->guessed = true;
			break;
		}
		asked->leaf = !out->count;
		object = object_of(users, stack->tgid, code);
		memset(&found, 0, sizeof(found));
		if (!ask_helper(users, object, code, left, &found) &&
		    (object || !out->count || !ask_jvm(users, process, left, &found))) {
			if (!out->count)
				return;
			step_frame_pointer(asked, &found);
			out->guessed = true;
		}
		memcpy(out->pc + out->count, found.pc, found.count * sizeof(*found.pc));
		out->java |= found.java << out->count;
		out->inlined |= found.inlined << out->count;
		out->count += found.count;
		asked->state = found.state;
		asked->called = found.called;
	}
	out->cut = found.end == -EFAULT && (stack->bare || asked->size < NAMING_STACK_BYTES);
}

static bool find_name(struct user_unwind *users, struct process *process, __u64 address, char *name, size_t size,
		      __u64 *offset)
{
	const struct naming_place place = {.distance = address};
	__u64 libjvm;

	if (process->python.number &&
	    user_symbol_cache_find(users->names, process->python.number, &place, name, size, offset))
		return *name;
	if (!process->jvm.number)
		return false;
	if (user_symbol_cache_find(users->names, process->jvm.number, &place, name, size, offset))
		return *name;
	libjvm = jvm_of(users, process);
	if (!libjvm || naming_client_hotspot_name(users->client, libjvm, process->tgid, &process->jvm, address, name,
						  size, offset))
		return false;
	user_symbol_cache_put(users->names, process->jvm.number, &place, name, *offset);
	return *name;
}

bool user_unwind_name(struct user_unwind *users, __u32 tgid, __u64 address, bool meet, char *name, size_t size,
		      __u64 *offset)
{
	struct process *process = NULL;

	for (int i = 0; i < PROCESSES; i++)
		if (users->processes[i].tgid == tgid)
			process = &users->processes[i];
	if (!process && meet && tgid)
		process = find_process(users, tgid);
	return process && find_name(users, process, address, name, size, offset);
}

/* What is known of a process that runs another program by now holds no more, at the same addresses either. */
static void see_program(struct user_unwind *users, const struct user_stack *stack)
{
	struct process *process = known_process(users, stack->tgid);

	if (process && process->program && stack->program && process->program != stack->program)
		process->tgid = 0;
}

static int add_python(struct user_unwind *users, struct process *process, const struct user_stack *stack, __u64 *frames,
		      int count)
{
	struct python_asked asked = {.client = users->client,
				     .names = users->names,
				     .minor = process->python_minor,
				     .tgid = stack->tgid,
				     .tid = stack->tid,
				     .stack = stack->bytes,
				     .size = stack->size < NAMING_STACK_BYTES ? stack->size : NAMING_STACK_BYTES,
				     .interpreter = &process->python};
	const struct code *code = code_at(process, process->python.start);
	struct unwind_state state;

	/* Code without a file is of -X perf: the functions are on the stack themselves. */
	for (int i = 0; code && i < count; i++) {
		const struct code *of = code_at(process, frames[i]);

		if (of && !of->inode)
			code = NULL;
	}
	if (!code)
		return count;
	asked.object = object_of(users, stack->tgid, code);
	unwind_begin(&state, stack->pc, stack->registers);
	asked.sp = unwind_stack_pointer(&state);
	if (!count)
		frames[count++] = stack->pc;
	if (asked.object) {
		const __u64 looks = users->python.looks, words = users->python.words_read, now = now_ns();
		__u64 begin = 0, pause_ns = 0;

		asked.may_look = now >= users->python.next_ns;
		asked.may_read_word = now >= users->python.next_word_ns;
		if (asked.may_look || asked.may_read_word)
			begin = user_unwind_cpu_ns(users);
		count = python_stacks_add(&users->python, &asked, frames, count);
		if (users->python.looks != looks || users->python.words_read != words)
			pause_ns = PYTHON_COST * (user_unwind_cpu_ns(users) - begin);
		if (users->python.looks != looks)
			users->python.next_ns = now_ns() + pause_ns;
		else if (pause_ns)
			users->python.next_word_ns = now_ns() + pause_ns;
	}
	return count;
}

/* As of the C stack alone; process: whose it is, NULL if that is not known. */
static int unwind_known(struct user_unwind *users, const struct user_stack *stack, __u64 *frames, struct process **of)
{
	struct memo_stack copy = {
		.tgid = stack->tgid,
		.program = stack->program,
		.size = stack->size < NAMING_STACK_BYTES ? stack->size : NAMING_STACK_BYTES,
		.pc = stack->pc,
		.bytes = stack->bytes,
	};
	struct found_frames found = {.pc = frames};
	const __u64 now = now_ns();
	struct process *process;
	char name[NAMING_NAME];
	__u64 offset;
	int count;

	if (!stack->tgid)
		return 0;
	see_program(users, stack);
	/* First: of more processes than have a place here each one's mappings would be read anew. */
	process = known_process(users, stack->tgid);
	copy.layout = process ? process->layout : 0;
	count = unwind_memo_find(&users->memos, &copy, now, frames);
	if (!count) {
		process = find_process(users, stack->tgid);
		if (process && process->layout != copy.layout) {
			copy.layout = process->layout;
			count = unwind_memo_find(&users->memos, &copy, now, frames);
		}
	}
	*of = process;
	if (process)
		process->unwound_ns = now;
	if (process && stack->program)
		process->program = stack->program;
	if (count || !process)
		return count;
	unwind(users, process, stack, &found);
	/* Now: its process may be gone when it is asked for. */
	for (int i = 0; i < found.count; i++)
		if (found.java >> i & 1)
			find_name(users, process, frames[i], name, sizeof(name), &offset);
	/* Those that are read as a whole begin like it, and go on. */
	if (found.cut)
		return found.count;
	unwind_memo_keep(&users->memos, &copy, now + (found.guessed || found.java ? UNWIND_GUESSED_NS : UNWIND_MEMO_NS),
			 frames, found.count, found.inlined);
	return found.count;
}

int user_unwind(struct user_unwind *users, const struct user_stack *stack, __u64 *frames)
{
	struct process *process = NULL;
	int count = unwind_known(users, stack, frames, &process);

	return process && process->python.number && stack->tid ? add_python(users, process, stack, frames, count)
							       : count;
}

static struct process *due(const struct user_unwind *users)
{
	const struct process *found = NULL;
	const __u64 now = now_ns();

	for (int i = 0; i < PROCESSES; i++) {
		const struct process *process = &users->processes[i];

		if (process->tgid && process->jvm.number && now - process->unwound_ns < LOOK_FOR_NS &&
		    (!found || process->look_ns < found->look_ns))
			found = process;
	}
	return (struct process *)found;
}

__u64 user_unwind_look_due(const struct user_unwind *users)
{
	const struct process *process = due(users);

	return !process ? 0 : process->look_ns ?: 1;
}

__u64 user_unwind_cpu_ns(const struct user_unwind *users)
{
	struct naming_counts counts;
	struct timespec own = {};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
	naming_client_counts(users->client, &counts);
	return counts.cpu_ns + own.tv_sec * 1000000000ull + own.tv_nsec;
}

bool user_unwind_look(struct user_unwind *users, struct monitor_look *out)
{
	struct process *process = due(users);
	const __u64 begin = user_unwind_cpu_ns(users);
	__u64 libjvm, cost;
	int err;

	if (!process || process->look_ns > now_ns())
		return false;
	out->tgid = process->tgid;
	libjvm = jvm_of(users, process);
	err = !libjvm ? -ENOENT
		      : naming_client_monitors(users->client, libjvm, process->tgid, &process->jvm, process->cursor,
					       &out->monitors);
	/* The first one reads the tables. */
	cost = process->look_ns ? user_unwind_cpu_ns(users) - begin : 0;
	process->cursor = err ? 0 : out->monitors.cursor;
	process->look_after_ns = !err && out->monitors.count ? LOOK_NS : 2 * process->look_after_ns;
	if (process->look_after_ns < LOOK_NS)
		process->look_after_ns = LOOK_NS;
	if (process->look_after_ns > SELDOM_LOOK_NS)
		process->look_after_ns = SELDOM_LOOK_NS;
	process->look_ns =
		now_ns() + (process->look_after_ns > LOOK_COST * cost ? process->look_after_ns : LOOK_COST * cost);
	return !err;
}
