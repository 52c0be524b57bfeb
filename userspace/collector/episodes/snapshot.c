// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names/task_ids.h"
#include "names/lock_types.h"
#include "episodes/snapshot.h"
#include "base/small_file.h"
#include "base/proc.h"

/* kernel/locking/mutex.c and rwsem.c, 5.10 to 7.2: flags below the task's address. */
#define OWNER_FLAGS   7ull
#define READERS_OWNED 1ull

struct path {
	const char *type;
	const char *members[3]; /* each in the one before */
};

/* Offset of a member of a member; false if this kernel's type has none. */
static bool find_offset(const struct types *types, const struct path *path, __u32 *offset)
{
	__u32 type = types_struct(types, path->type), part;

	*offset = 0;
	for (int i = 0; i < 3 && path->members[i]; i++) {
		if (!type || !types_member(types, type, path->members[i], &part, &type))
			return false;
		*offset += part;
	}
	return true;
}

/* Where locks keep their owner; with PREEMPT_RT in the rt-mutex inside. */
static int read_owner(const struct lock_names *names, const struct long_wait *wait, __u64 *owner)
{
	static const struct path mutexes[] = {{"mutex", {"owner"}}, {"mutex", {"rtmutex", "owner"}}};
	static const struct path rwsems[] = {{"rw_semaphore", {"owner"}},
					     {"rw_semaphore", {"rwbase", "rtmutex", "owner"}}};
	static const struct path rtmutexes[] = {{"rt_mutex_base", {"owner"}}, {"rt_mutex", {"owner"}}};
	const struct path *paths;
	__u32 offset;

	switch (wait->kind) {
	case KIND_MUTEX:
	case KIND_MUTEX_SPIN:
		paths = mutexes;
		break;
	case KIND_RWSEM_READ:
	case KIND_RWSEM_WRITE:
		paths = rwsems;
		break;
	case KIND_RTMUTEX:
		paths = rtmutexes;
		break;
	default:
		return -ENOENT;
	}
	for (int i = 0; names->types && i < 2; i++)
		if (find_offset(names->types, &paths[i], &offset))
			return resolver_read(&names->resolver, wait->lock_address + offset, owner, sizeof(*owner));
	return -ENOENT;
}

/* "[<0>] function+0x12/0x34" by line, into addresses; leaf first. */
static int read_stack(const struct symbols *symbols, __u32 tid, __u64 frames[STACK_FRAMES])
{
	FILE *file = proc_open(tid, "stack");
	char line[256];
	int count = 0;

	if (!file)
		return 0;
	while (count < STACK_FRAMES && fgets(line, sizeof(line), file)) {
		unsigned long long offset;
		char name[128];
		__u64 address;

		if (sscanf(line, "[<%*[^>]>] %127[^+]+%llx", name, &offset) == 2 &&
		    !symbols_address(symbols, name, &address))
			frames[count++] = address + offset;
	}
	fclose(file);
	return count;
}

/* What a holder whose tid is known does; from: without its stack, and with it. */
static int look_at(struct stacks *stacks, const char *from, const char *from_stack, struct holder_now *holder)
{
	__u64 frames[STACK_FRAMES];
	struct process_stat now;
	int count;

	holder->from = from;
	if (!process_stat_read(holder->tid, &now))
		holder->state[0] = now.state;
	proc_comm(holder->tid, holder->comm, sizeof(holder->comm));
	count = read_stack(stacks->symbols, holder->tid, frames);
	holder->stack = stacks_id(stacks, 0, frames, count);
	if (holder->stack > 0)
		holder->from = from_stack;
	return holder->stack < 0 ? -EIO : 0;
}

int holder_now(const struct lock_names *names, struct stacks *stacks, const struct long_wait *wait,
	       struct holder_now *holder)
{
	__u64 owner = 0;

	*holder = (struct holder_now){.from = ""};
	if (read_owner(names, wait, &owner))
		return 0;
	if ((wait->kind == KIND_RWSEM_READ || wait->kind == KIND_RWSEM_WRITE) && owner & READERS_OWNED) {
		holder->from = "owner field: readers";
		return 0;
	}
	owner &= ~OWNER_FLAGS;
	if (!owner || lock_names_task(names, owner, &holder->tid, &holder->tgid))
		return 0;
	return look_at(stacks, "owner field; no stack available", "owner field, and /proc/TID/stack at that moment",
		       holder);
}

int holder_known(struct stacks *stacks, __u32 tid, const char *from, struct holder_now *holder)
{
	*holder = (struct holder_now){.tid = tid};
	if (task_leader(tid, &holder->tgid))
		holder->tgid = tid;
	return look_at(stacks, from, from, holder);
}
