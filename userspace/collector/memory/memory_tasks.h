/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tasks, their names and address spaces, at the moment that records have come to. */
#ifndef LOCKLINE_MEMORY_TASKS_H
#define LOCKLINE_MEMORY_TASKS_H

#include <stdbool.h>
#include <linux/types.h>

#include "memory/memory_maps.h"

#define MEMORY_COMM 16

/* A task under one name: what memory_thread has a row for. */
struct memory_thread {
	__u32 pid;
	__u32 tid;
	char comm[MEMORY_COMM];
};

struct memory_task;
struct memory_process;

/* The kernel's own mapping record: where its text is, and by which symbol perf knew it. */
struct memory_kernel {
	bool known;
	__u64 start;
	__u64 end;
	__u64 reference; /* address of the symbol; 0: hidden */
	char reference_name[32];
	__u8 build_id[MEMORY_BUILD_ID];
	__u8 build_id_size;
};

#define MEMORY_RECENT_TASKS 256

struct memory_tasks {
	struct memory_objects objects;
	struct memory_space *kernel_space; /* the kernel and its modules */
	struct memory_kernel kernel;
	struct memory_thread *threads;
	__u32 thread_count;
	__u32 thread_capacity;
	__u64 refused; /* mappings and tasks beyond the budget */
	struct hash_index thread_index;
	struct memory_task *tasks;
	__u32 task_count;
	__u32 task_capacity;
	struct hash_index task_index;
	struct memory_process *processes;
	__u32 process_count;
	__u32 process_capacity;
	struct hash_index process_index;
	__u32 recent[MEMORY_RECENT_TASKS]; /* tasks by their ids, each in the place of the one before */
	struct memory_budget *budget;
};

int memory_tasks_open(struct memory_tasks *tasks, struct memory_budget *budget);
void memory_tasks_close(struct memory_tasks *tasks);

struct memory_mmap {
	__u32 pid;
	bool kernel;    /* cpumode of the record */
	bool anonymous; /* of huge pages: without a file, whatever its name */
	struct memory_mapping mapping;
	const char *name;
	size_t name_length;
	const struct memory_file_id *file; /* NULL: the record has none */
	const __u8 *build_id;              /* NULL: the record has none */
	size_t build_id_size;
};

/* Nothing within the budget is no failure: it is counted in refused. */
int memory_tasks_mmap(struct memory_tasks *tasks, const struct memory_mmap *mmap);
int memory_tasks_comm(struct memory_tasks *tasks, __u32 pid, __u32 tid, const char *comm, size_t length, bool exec);
/* ran_before: perf tells of a task that is older than the recording; its mappings follow. */
int memory_tasks_fork(struct memory_tasks *tasks, __u32 pid, __u32 tid, __u32 parent_pid, __u32 parent_tid,
		      bool ran_before);
/* The process is gone once its leader is. */
int memory_tasks_exit(struct memory_tasks *tasks, __u32 pid, __u32 tid);

/* The number of the thread, as it is called now, and its address space, NULL: not known.  Negative errno. */
__s64 memory_tasks_thread(struct memory_tasks *tasks, __u32 pid, __u32 tid, const struct memory_space **space);

#endif /* LOCKLINE_MEMORY_TASKS_H */
