// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"
#include "watch/watch_takers.h"

#define LISTED 8

struct list {
	char *out;
	size_t size;
	int count;
};

static void add(struct list *list, const char *pid, const char *what)
{
	size_t used = strlen(list->out);
	char path[64], comm[32];

	if (list->count++ >= LISTED || used + 1 >= list->size)
		return;
	snprintf(path, sizeof(path), "/proc/%.16s/comm", pid);
	first_line(path, comm, sizeof(comm));
	snprintf(list->out + used, list->size - used, "%s%s %.16s (%s)", used ? ", " : "", comm, pid, what);
}

static bool has_perf_event(const char *pid)
{
	char path[64], link[64];
	struct dirent *entry;
	bool found = false;
	DIR *files;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	files = opendir(path);
	while (!found && files && (entry = readdir(files))) {
		char name[PATH_MAX];
		ssize_t length;

		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		length = readlink(name, link, sizeof(link) - 1);
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
	struct dirent *entry;

	*out = 0;
	while (processes && (entry = readdir(processes))) {
		char path[64], tracer[16], what[64];

		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name) ||
		    strtol(entry->d_name, NULL, 10) == getpid())
			continue;
		if (has_perf_event(entry->d_name))
			add(&list, entry->d_name, "has perf events");
		snprintf(path, sizeof(path), "/proc/%.16s/status", entry->d_name);
		if (value_of_key(path, "TracerPid", tracer, sizeof(tracer)) || !strcmp(tracer, "0"))
			continue;
		snprintf(what, sizeof(what), "traced by %s", tracer);
		add(&list, entry->d_name, what);
	}
	if (processes)
		closedir(processes);
}
