// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/proc.h"
#include "naming/unwind.h"
#include "naming/user_modules.h"
#include "naming/user_unwind.h"

#define PROCESSES 16
#define OBJECTS   64
#define CODE      1024 /* mappings of code of one process; those beyond end a stack */
/* Mappings are read again as often, and sooner if code is not in them. */
#define REFRESH_NS 1000000000ull
#define MISSED_NS  50000000ull

struct code {
	__u64 start, end, offset, inode;
	__u32 major, minor;
};

struct process {
	__u32 tgid; /* 0: free */
	__u64 used;
	__u64 read_ns;
	struct code *code;
	int count;
};

struct object {
	__u64 inode; /* 0: free */
	__u32 major, minor;
	__u64 used;
	struct unwind_object *unwind; /* NULL: nothing is known of it */
};

struct user_unwind {
	struct process processes[PROCESSES];
	struct object objects[OBJECTS];
	__u64 uses;
};

struct user_unwind *user_unwind_open(void)
{
	return calloc(1, sizeof(struct user_unwind));
}

void user_unwind_close(struct user_unwind *users)
{
	for (int i = 0; users && i < PROCESSES; i++)
		free(users->processes[i].code);
	for (int i = 0; users && i < OBJECTS; i++)
		unwind_object_close(users->objects[i].unwind);
	free(users);
}

static void read_code(struct process *process)
{
	FILE *file = proc_open(process->tgid, "maps");
	size_t capacity = 0;
	char *line = NULL;

	process->read_ns = now_ns();
	/* It is gone: what was read of it still holds for its last samples. */
	if (!file)
		return;
	process->count = 0;
	while (process->count < CODE && getline(&line, &capacity, file) > 0) {
		struct proc_map_line map;

		if (proc_map_line_parse(line, &map) && map.access[2] == 'x')
			process->code[process->count++] = (struct code){
				.start = map.start,
				.end = map.end,
				.offset = map.offset,
				.inode = map.inode,
				.major = map.major,
				.minor = map.minor,
			};
	}
	free(line);
	fclose(file);
}

static struct process *find_process(struct user_unwind *users, __u32 tgid)
{
	struct process *found = users->processes;

	for (int i = 0; i < PROCESSES; i++) {
		struct process *process = &users->processes[i];

		if (process->tgid == tgid) {
			found = process;
			break;
		}
		if (process->used < found->used)
			found = process;
	}
	if (!found->code)
		found->code = calloc(CODE, sizeof(*found->code));
	if (!found->code)
		return NULL;
	if (found->tgid != tgid) {
		found->tgid = tgid;
		found->count = 0;
		read_code(found);
	} else if (now_ns() - found->read_ns > REFRESH_NS) {
		read_code(found);
	}
	found->used = ++users->uses;
	return found;
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

static const struct code *find_code(struct process *process, __u64 pc)
{
	const struct code *code = code_at(process, pc);

	if (!code && now_ns() - process->read_ns > MISSED_NS) {
		read_code(process);
		code = code_at(process, pc);
	}
	return code;
}

static struct unwind_object *open_object(__u32 tgid, const struct code *code)
{
	const struct user_module module = {
		.start = code->start,
		.inode = code->inode,
		.major = code->major,
		.minor = code->minor,
	};
	struct unwind_object *unwind = NULL;
	int fd = user_module_open(&module, tgid, NULL);

	if (fd >= 0)
		unwind_object_open(&unwind, fd);
	return unwind;
}

/* NULL: code without a file, or of a file that says nothing of its frames. */
static struct unwind_object *object_of(struct user_unwind *users, __u32 tgid, const struct code *code)
{
	struct object *oldest = users->objects;

	if (!code->inode)
		return NULL;
	for (int i = 0; i < OBJECTS; i++) {
		struct object *object = &users->objects[i];

		if (object->inode == code->inode && object->major == code->major && object->minor == code->minor) {
			object->used = ++users->uses;
			return object->unwind;
		}
		if (object->used < oldest->used)
			oldest = object;
	}
	unwind_object_close(oldest->unwind);
	*oldest = (struct object){
		.inode = code->inode,
		.major = code->major,
		.minor = code->minor,
		.used = ++users->uses,
		.unwind = open_object(tgid, code),
	};
	return oldest->unwind;
}

int user_unwind(struct user_unwind *users, __u32 tgid, __u64 pc, const __u64 *registers, const void *stack,
		__u64 stack_bytes, __u64 *frames, int max)
{
	struct process *process = tgid ? find_process(users, tgid) : NULL;
	struct unwind_stack copy = {.bytes = stack, .size = stack_bytes};
	struct unwind_state state;
	bool called = false;
	int count = 0, err = 0;

	if (!process)
		return 0;
	unwind_begin(&state, pc, registers);
	copy.address = unwind_stack_pointer(&state);
	while (!err && count < max) {
		const struct code *code = find_code(process, state.pc);
		struct unwind_object *object = code ? object_of(users, tgid, code) : NULL;

		/* No code: what was taken for a return address was none. */
		if (!code)
			break;
		frames[count++] = state.pc;
		err = -ENOENT;
		if (object)
			err = unwind_step(object, code->offset + (state.pc - code->start), &state, &copy, &called);
		if (err == -ENOENT && count == 1)
			return 0;
		if (err == -ENOENT)
			err = unwind_step_frame_pointer(&state, &copy, &called);
	}
	return count;
}
