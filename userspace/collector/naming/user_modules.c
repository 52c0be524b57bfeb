// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/patience.h"
#include "base/proc.h"
#include "base/proc_mapping.h"
#include "base/regular_file.h"
#include "naming/user_modules.h"

#define MOST_MODULES 1024
#define MOST_LINES   (1u << 17)
#define MOST_TEXT    (256u << 10) /* of all paths */

struct reading {
	struct user_modules found;
	size_t text;
	bool full;
};

void user_module_path(char *out, size_t size, const char *path)
{
	static const char mark[] = " (deleted)";
	size_t length = strlen(path), cut = sizeof(mark) - 1;

	if (length > cut && !strcmp(path + length - cut, mark))
		length -= cut;
	snprintf(out, size, "%.*s", (int)length, path);
}

static struct user_module *add(struct reading *reading, const struct user_module *module, const char *path)
{
	struct user_modules *found = &reading->found;
	size_t length = strlen(path) + 1;
	struct user_module *new;

	if (found->count == MOST_MODULES || reading->text + length > MOST_TEXT)
		return NULL;
	if (!(found->count & (found->count + 1))) {
		new = realloc(found->list, (2 * found->count + 1) * sizeof(*new));
		if (!new)
			return NULL;
		found->list = new;
	}
	new = &found->list[found->count];
	*new = *module;
	new->path = malloc(length);
	if (!new->path)
		return NULL;
	user_module_path(new->path, length, path);
	reading->text += length;
	found->count++;
	return new;
}

static void read_line(struct reading *reading, char *line)
{
	struct user_module *last = reading->found.count ? &reading->found.list[reading->found.count - 1] : NULL;
	struct proc_map_line map;
	struct user_module module;

	if (!proc_map_line_parse(line, &map))
		return;
	module = (struct user_module){
		.start = map.start,
		.end = map.end,
		.behind = map.end,
		.file_offset = map.offset,
		.inode = map.inode,
		.major = map.major,
		.minor = map.minor,
		.vdso = !map.inode && !strcmp(map.path, "[vdso]"),
	};
	if (map.inode && last && last->inode == map.inode && last->major == map.major && last->minor == map.minor)
		last->end = last->behind = map.end;
	else if ((map.inode && *map.path == '/') || module.vdso)
		reading->full |= !add(reading, &module, map.path);
	else if (!*map.path && last && last->behind == map.start && !reading->full)
		last->behind = map.end;
}

static void keep_known(struct user_modules *found, const struct user_modules *before)
{
	for (unsigned int i = 0; i < found->count; i++) {
		struct user_module *module = &found->list[i];
		const struct user_module *old = user_modules_at(before, module->start);

		if (!old || old->start != module->start || old->inode != module->inode || old->major != module->major ||
		    old->minor != module->minor || old->file_offset != module->file_offset)
			continue;
		module->object = old->object;
	}
}

int user_modules_read(struct user_modules *modules, __u32 tgid)
{
	FILE *file = patience_open_maps(tgid);
	struct reading reading = {};
	size_t capacity = 0;
	char *line = NULL;

	if (!file)
		return -errno;
	for (unsigned int i = 0; i < MOST_LINES && getline(&line, &capacity, file) > 0; i++)
		read_line(&reading, line);
	free(line);
	fclose(file);
	/* A process that has ended has no mappings; what it had is all that will ever be known. */
	if (!reading.found.count && modules->count)
		return 0;
	keep_known(&reading.found, modules);
	user_modules_free(modules);
	*modules = reading.found;
	return 0;
}

void user_modules_free(struct user_modules *modules)
{
	for (unsigned int i = 0; i < modules->count; i++)
		free(modules->list[i].path);
	free(modules->list);
	*modules = (struct user_modules){};
}

struct user_module *user_modules_at(const struct user_modules *modules, __u64 address)
{
	for (unsigned int i = 0; i < modules->count; i++)
		if (address >= modules->list[i].start && address < modules->list[i].behind)
			return &modules->list[i];
	return NULL;
}

int user_module_open(const struct user_module *module, __u32 tgid, struct stat *status)
{
	struct mapped_file mapped = {
		.tgid = tgid,
		.inode = module->inode,
		.major = module->major,
		.minor = module->minor,
	};
	struct proc_mapping mapping;
	int err = proc_mapping_at(tgid, module->start, &mapping);

	if (err)
		return err;
	/* It may have mapped something else there since. */
	if (mapping.inode != module->inode || mapping.major != module->major || mapping.minor != module->minor)
		return -ESTALE;
	mapped.start = mapping.start;
	mapped.end = mapping.end;
	mapped.path = mapping.path;
	return patience_open_mapped(&mapped, status);
}
