// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/patience.h"
#include "base/proc.h"
#include "memory/live_maps.h"

#define AGAIN_NS 1000000000ull

int live_maps_kernel(struct memory_tasks *tasks, __u64 text)
{
	static const char name[] = "[kernel.kallsyms]_text";
	const struct memory_mmap mmap = {
		.kernel = true,
		.mapping = {.start = 1ull << 63, .end = ~0ull, .offset = text},
		.name = name,
		.name_length = sizeof(name) - 1,
	};

	return memory_tasks_mmap(tasks, &mmap);
}

static int parse_line(struct memory_tasks *tasks, __u32 pid, char *line)
{
	struct memory_file_id file = {};
	struct proc_map_line map;
	struct memory_mmap mmap = {.pid = pid, .file = &file};
	__u32 count;
	int err;

	if (!proc_map_line_parse(line, &map) || map.start >= map.end)
		return 0;
	file = (struct memory_file_id){.major = map.major, .minor = map.minor, .inode = map.inode};
	mmap.mapping = (struct memory_mapping){
		.start = map.start, .end = map.end, .offset = map.offset, .shared = map.access[3] == 's'};
	mmap.name = *map.path ? map.path : "//anon";
	mmap.name_length = strlen(mmap.name);
	mmap.anonymous = !map.inode;
	count = tasks->objects.count;
	err = memory_tasks_mmap(tasks, &mmap);
	if (tasks->objects.count > count)
		tasks->objects.list[count].pid = pid;
	return err;
}

int live_maps_parse(struct memory_tasks *tasks, __u32 pid, FILE *file)
{
	char *line = NULL;
	size_t size = 0;
	int err = 0;

	while (!err && getline(&line, &size, file) > 0)
		err = parse_line(tasks, pid, line);
	free(line);
	return err;
}

/* NULL: no memory for it. */
static struct live_process *find_process(struct live_maps *maps, __u32 pid)
{
	struct memory_budget *budget = maps->tasks->budget;
	__u32 hash = hash_two(pid, 2);

	hash_index_for(&maps->index, hash, found)
	{
		if (maps->processes[found].pid == pid)
			return &maps->processes[found];
	}
	if (memory_reserve((void **)&maps->processes, maps->count, &maps->capacity, sizeof(*maps->processes), budget) ||
	    hash_index_add(&maps->index, budget, hash, maps->count))
		return NULL;
	maps->processes[maps->count] = (struct live_process){.pid = pid};
	return &maps->processes[maps->count++];
}

int live_maps_read(struct live_maps *maps, __u32 pid, __u64 now_ns)
{
	struct live_process *process = find_process(maps, pid);
	FILE *file;
	int err;

	if (!process || (process->read_ns && now_ns - process->read_ns < AGAIN_NS))
		return 0;
	process->read_ns = now_ns;
	file = patience_open_maps(pid);
	if (!file) {
		maps->unread++;
		return 0;
	}
	err = live_maps_parse(maps->tasks, pid, file);
	fclose(file);
	return err;
}

void live_maps_close(struct live_maps *maps)
{
	free(maps->processes);
	free(maps->index.slots);
}
