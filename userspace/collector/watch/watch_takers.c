// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "watch/watch_takers.h"

#define LISTED 8

struct list {
	char *out;
	size_t size;
	int count;
};

static void add(struct list *list, __u32 pid, const char *what)
{
	size_t used = strlen(list->out);
	char comm[32];

	if (list->count++ >= LISTED || used + 1 >= list->size)
		return;
	proc_comm(pid, comm, sizeof(comm));
	snprintf(list->out + used, list->size - used, "%s%s %u (%s)", used ? ", " : "", comm, pid, what);
}

static bool has_perf_event(__u32 pid)
{
	DIR *files = proc_open_directory(pid, "fd");
	struct dirent *entry;
	bool found = false;

	while (!found && files && (entry = readdir(files))) {
		char link[64];
		ssize_t length = readlinkat(dirfd(files), entry->d_name, link, sizeof(link) - 1);

		if (length < 0)
			continue;
		link[length] = 0;
		found = !strcmp(link, "anon_inode:[perf_event]");
	}
	if (files)
		closedir(files);
	return found;
}

void watch_takers(char *out, size_t size)
{
	struct list list = {.out = out, .size = size};
	DIR *processes = opendir("/proc");
	__u32 pid;

	*out = 0;
	while (processes && (pid = proc_next(processes))) {
		char tracer[16], what[64];

		if (pid == (__u32)getpid())
			continue;
		if (has_perf_event(pid))
			add(&list, pid, "has perf events");
		if (proc_status(pid, "TracerPid", tracer, sizeof(tracer)) || !strcmp(tracer, "0"))
			continue;
		snprintf(what, sizeof(what), "traced by %s", tracer);
		add(&list, pid, what);
	}
	if (processes)
		closedir(processes);
}
