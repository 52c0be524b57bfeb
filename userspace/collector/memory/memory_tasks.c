// SPDX-License-Identifier: GPL-2.0-or-later
/* The rules of tools/perf/util/machine.c, Linux 6.12, but that an exec ends the old mappings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_tasks.h"

#define NO_THREAD     ~0u
#define KERNEL_PREFIX "[kernel.kallsyms]"

struct memory_task {
	__u32 tid;
	__u32 pid;
	__u32 process;
	__u32 thread; /* NO_THREAD: no sample since it got its name */
	char comm[MEMORY_COMM];
};

struct memory_process {
	__u32 pid;
	struct memory_space *space;
};

int memory_tasks_open(struct memory_tasks *tasks, struct memory_budget *budget)
{
	*tasks = (struct memory_tasks){.budget = budget, .objects.budget = budget};
	tasks->kernel_space = memory_space_new(budget);
	return tasks->kernel_space ? 0 : -ENOMEM;
}

void memory_tasks_close(struct memory_tasks *tasks)
{
	for (__u32 i = 0; i < tasks->process_count; i++)
		memory_space_free(tasks->processes[i].space, tasks->budget);
	memory_space_free(tasks->kernel_space, tasks->budget);
	memory_objects_close(&tasks->objects);
	free(tasks->threads);
	free(tasks->tasks);
	free(tasks->processes);
	free(tasks->thread_index.slots);
	free(tasks->task_index.slots);
	free(tasks->process_index.slots);
	*tasks = (struct memory_tasks){};
}

static __s64 find_process(struct memory_tasks *tasks, __u32 pid)
{
	__u32 hash = hash_two(pid, 1), number = tasks->process_count;
	int err;

	hash_index_for(&tasks->process_index, hash, found)
	{
		if (tasks->processes[found].pid == pid)
			return found;
	}
	err = memory_reserve((void **)&tasks->processes, number, &tasks->process_capacity, sizeof(*tasks->processes),
			     tasks->budget);
	err = err ?: hash_index_add(&tasks->process_index, tasks->budget, hash, number);
	if (err)
		return err;
	tasks->processes[tasks->process_count++] = (struct memory_process){.pid = pid};
	return number;
}

static __s64 find_task(struct memory_tasks *tasks, __u32 pid, __u32 tid)
{
	__u32 hash, number = tasks->task_count, *recent = &tasks->recent[tid % MEMORY_RECENT_TASKS];
	struct memory_task *task = *recent < number ? &tasks->tasks[*recent] : NULL;
	__s64 process;
	int err;

	if (task && task->tid == tid && task->pid == pid)
		return *recent;
	hash = hash_two(tid, 0);
	hash_index_for(&tasks->task_index, hash, found)
	{
		task = &tasks->tasks[found];
		if (task->tid != tid)
			continue;
		if (task->pid != pid) {
			/* The id is another task's now: its end or its fork was lost. */
			process = find_process(tasks, pid);
			if (process < 0)
				return process;
			*task = (struct memory_task){.tid = tid, .pid = pid, .process = process, .thread = NO_THREAD};
		}
		*recent = found;
		return found;
	}
	process = find_process(tasks, pid);
	if (process < 0)
		return process;
	err = memory_reserve((void **)&tasks->tasks, number, &tasks->task_capacity, sizeof(*tasks->tasks),
			     tasks->budget);
	err = err ?: hash_index_add(&tasks->task_index, tasks->budget, hash, number);
	if (err)
		return err;
	tasks->tasks[tasks->task_count++] =
		(struct memory_task){.tid = tid, .pid = pid, .process = process, .thread = NO_THREAD};
	*recent = number;
	return number;
}

static __s64 find_thread(struct memory_tasks *tasks, const struct memory_task *task)
{
	struct memory_thread wanted = {.pid = task->pid, .tid = task->tid};
	__u32 hash, number = tasks->thread_count;
	__u64 words[2];
	int err;

	memcpy(wanted.comm, task->comm, sizeof(wanted.comm));
	memcpy(words, wanted.comm, sizeof(words));
	hash = hash_two((__u64)wanted.pid << 32 | wanted.tid, words[0] ^ words[1] << 7);
	hash_index_for(&tasks->thread_index, hash, found)
	{
		if (!memcmp(&tasks->threads[found], &wanted, sizeof(wanted)))
			return found;
	}
	err = memory_reserve((void **)&tasks->threads, number, &tasks->thread_capacity, sizeof(*tasks->threads),
			     tasks->budget);
	err = err ?: hash_index_add(&tasks->thread_index, tasks->budget, hash, number);
	if (err)
		return err;
	tasks->threads[tasks->thread_count++] = wanted;
	return number;
}

/* As memory_tasks_thread(), of a task that was not the last one in its place. */
static __attribute__((noinline)) __s64 look_up_thread(struct memory_tasks *tasks, __u32 pid, __u32 tid,
						      const struct memory_space **space)
{
	__s64 number = find_task(tasks, pid, tid), thread;
	struct memory_task *task;

	*space = NULL;
	if (number < 0)
		return number;
	task = &tasks->tasks[number];
	*space = tasks->processes[task->process].space;
	if (task->thread != NO_THREAD)
		return task->thread;
	thread = find_thread(tasks, task);
	if (thread >= 0)
		task->thread = thread;
	return thread;
}

__s64 memory_tasks_thread(struct memory_tasks *tasks, __u32 pid, __u32 tid, const struct memory_space **space)
{
	__u32 recent = tasks->recent[tid % MEMORY_RECENT_TASKS];
	const struct memory_task *task = &tasks->tasks[recent];

	/* Nearly all samples are of these. */
	if (recent >= tasks->task_count || task->tid != tid || task->pid != pid || task->thread == NO_THREAD)
		return look_up_thread(tasks, pid, tid, space);
	*space = tasks->processes[task->process].space;
	return task->thread;
}

static int refused(struct memory_tasks *tasks, __s64 err)
{
	if (err == -ENOSPC)
		tasks->refused++;
	return err < 0 && err != -ENOSPC ? err : 0;
}

static void drop_space(struct memory_tasks *tasks, __u32 process)
{
	tasks->objects.changes++;
	memory_space_free(tasks->processes[process].space, tasks->budget);
	tasks->processes[process].space = NULL;
}

/* machine__process_kernel_mmap_event(): the image, a module, or a part that perf added. */
static int kernel_mmap(struct memory_tasks *tasks, const struct memory_mmap *mmap)
{
	struct memory_mapping mapping = mmap->mapping;
	bool image = mmap->name_length >= strlen(KERNEL_PREFIX) &&
		     !memcmp(mmap->name, KERNEL_PREFIX, strlen(KERNEL_PREFIX) - 1);
	struct memory_kernel *kernel = &tasks->kernel;
	__s64 object;

	if (image) {
		size_t length = strnlen(mmap->name, mmap->name_length), prefix = strlen(KERNEL_PREFIX);

		/* Some files tell of a kernel without size. */
		if (!mapping.start && !mapping.end)
			mapping.end = ~0ull;
		if (!kernel->known) {
			*kernel = (struct memory_kernel){
				.known = true,
				.start = mapping.start,
				.end = mapping.end,
				.reference = mapping.offset,
			};
			length = length > prefix ? length - prefix : 0;
			if (length >= sizeof(kernel->reference_name))
				length = sizeof(kernel->reference_name) - 1;
			memcpy(kernel->reference_name, mmap->name + prefix, length);
		}
		if (mmap->build_id && mmap->build_id_size <= MEMORY_BUILD_ID) {
			memcpy(kernel->build_id, mmap->build_id, mmap->build_id_size);
			kernel->build_id_size = mmap->build_id_size;
		}
		object = memory_objects_find(&tasks->objects, KERNEL_PREFIX, prefix, NULL, mmap->build_id,
					     mmap->build_id_size);
	} else {
		object = memory_objects_find(&tasks->objects, mmap->name, mmap->name_length, NULL, mmap->build_id,
					     mmap->build_id_size);
	}
	if (object < 0)
		return object;
	mapping.object = object;
	mapping.anonymous = true;
	tasks->objects.changes++;
	return memory_space_add(tasks->kernel_space, &mapping, tasks->budget);
}

static int process_mmap(struct memory_tasks *tasks, const struct memory_mmap *mmap)
{
	struct memory_mapping mapping = mmap->mapping;
	__s64 process = find_process(tasks, mmap->pid), object;
	struct memory_space **space;

	if (process < 0)
		return process;
	object = memory_objects_find(&tasks->objects, mmap->name, mmap->name_length, mmap->file, mmap->build_id,
				     mmap->build_id_size);
	if (object < 0)
		return object;
	tasks->objects.changes++;
	space = &tasks->processes[process].space;
	if (!*space)
		*space = memory_space_new(tasks->budget);
	if (!*space)
		return -ENOSPC;
	mapping.object = object;
	mapping.anonymous = mmap->anonymous || tasks->objects.list[object].anonymous;
	return memory_space_add(*space, &mapping, tasks->budget);
}

int memory_tasks_mmap(struct memory_tasks *tasks, const struct memory_mmap *mmap)
{
	return refused(tasks, mmap->kernel ? kernel_mmap(tasks, mmap) : process_mmap(tasks, mmap));
}

int memory_tasks_comm(struct memory_tasks *tasks, __u32 pid, __u32 tid, const char *comm, size_t length, bool exec)
{
	__s64 number = find_task(tasks, pid, tid);
	struct memory_task *task;

	if (number < 0)
		return refused(tasks, number);
	task = &tasks->tasks[number];
	length = strnlen(comm, length < MEMORY_COMM - 1 ? length : MEMORY_COMM - 1);
	memset(task->comm, 0, sizeof(task->comm));
	memcpy(task->comm, comm, length);
	task->thread = NO_THREAD;
	if (exec)
		drop_space(tasks, task->process);
	return 0;
}

int memory_tasks_fork(struct memory_tasks *tasks, __u32 pid, __u32 tid, __u32 parent_pid, __u32 parent_tid,
		      bool ran_before)
{
	__s64 child = find_task(tasks, pid, tid), parent = child < 0 ? child : find_task(tasks, parent_pid, parent_tid);
	struct memory_space *space;
	struct memory_task *task;

	if (parent < 0)
		return refused(tasks, parent);
	task = &tasks->tasks[child];
	memcpy(task->comm, tasks->tasks[parent].comm, sizeof(task->comm));
	task->thread = NO_THREAD;
	if (pid == parent_pid)
		return 0;
	drop_space(tasks, task->process);
	space = tasks->processes[tasks->tasks[parent].process].space;
	if (ran_before || !space)
		return 0;
	space = memory_space_copy(space, tasks->budget);
	tasks->processes[task->process].space = space;
	return space ? 0 : refused(tasks, -ENOSPC);
}

int memory_tasks_exit(struct memory_tasks *tasks, __u32 pid, __u32 tid)
{
	__s64 number;

	/* A sample of its last moments may follow; the address space is gone with the next use of the id. */
	if (pid != tid || tasks->budget->used < tasks->budget->limit / 2)
		return 0;
	number = find_process(tasks, pid);
	if (number >= 0)
		drop_space(tasks, number);
	return 0;
}
