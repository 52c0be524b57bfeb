// SPDX-License-Identifier: GPL-2.0-or-later
/* Symbols and lines of files that processes mapped: by elfutils, or while they live by the naming helper. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <elfutils/libdwfl.h>

#include "base/patience.h"
#include "base/regular_file.h"
#include "names/build_id.h"
#include "names/debug_files.h"
#include "memory/memory_elf.h"
#include "elf/elf_symbols.h"
#include "naming/naming_client.h"

struct memory_elf {
	Dwfl *dwfl;
	Dwfl_Module *module;
	bool source_lines;
	/* Or, of processes that live, by the helper. */
	struct naming_client *client;
	__u64 number;
	char name[NAMING_NAME];
};

/* Installed debug files alone. */
static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_installed_debuginfo,
};

/* Without a build id: the very inode on the very machine, not written since. */
static bool is_untouched(const struct memory_symbols *symbols, const struct memory_object *object,
			 const struct stat *status)
{
	char hostname[256] = "";

	if (symbols->sources.symfs)
		return true;
	gethostname(hostname, sizeof(hostname) - 1);
	return object->named_by_id && object->file.inode == status->st_ino &&
	       object->file.major == major(status->st_dev) && object->file.minor == minor(status->st_dev) &&
	       !strcmp(hostname, symbols->sources.hostname) && symbols->sources.written_ns &&
	       (__u64)status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec < symbols->sources.written_ns;
}

static bool is_object(Dwfl_Module *module, const struct memory_object *object)
{
	const unsigned char *bits;
	GElf_Addr address;
	int size;

	/* Reads the file, if it is one. */
	if (dwfl_module_getelf(module, &address) == NULL)
		return false;
	if (!object->build_id_size)
		return true;
	size = dwfl_module_build_id(module, &bits, &address);
	/* Where the file does not tell the size, what is behind a shorter one is 0. */
	return size > 0 && size <= object->build_id_size && !memcmp(bits, object->build_id, size);
}

static struct memory_elf *open_elf(const struct memory_symbols *symbols, const struct memory_object *object,
				   const char *path)
{
	struct memory_elf *elf;
	struct stat status;
	/* The name comes from a file that may be anybody's. */
	int fd = regular_file_open(path, LINK_FOLLOWED, &status);

	if (fd < 0)
		return NULL;
	elf = object->build_id_size || is_untouched(symbols, object, &status) ? calloc(1, sizeof(*elf)) : NULL;
	if (!elf) {
		close(fd);
		return NULL;
	}
	elf->source_lines = symbols->sources.source_lines;
	elf->dwfl = dwfl_begin(&callbacks);
	if (elf->dwfl) {
		dwfl_report_begin(elf->dwfl);
		elf->module = dwfl_report_elf(elf->dwfl, object->name, path, fd, 0, true);
		dwfl_report_end(elf->dwfl, NULL, NULL);
	}
	if (!elf->module)
		close(fd);
	if (!elf->module || !is_object(elf->module, object)) {
		memory_elf_close(elf);
		return NULL;
	}
	return elf;
}

/*
 * Below the root of the process that was seen to map it, as it may be in a container; of one that is gone below ours.
 * Nobody has a build id of it: it must be the very inode.
 */
static struct memory_elf *open_live(const struct memory_symbols *symbols, const struct memory_object *object)
{
	struct memory_elf *elf = calloc(1, sizeof(*elf));
	struct stat status;
	int fd;

	if (!elf)
		return NULL;
	fd = object->pid ? patience_open_of(object->pid, object->name, &status) : -ESRCH;
	if (fd == -ENOENT || fd == -ESRCH)
		fd = patience_open_of(getpid(), object->name, &status);
	if (fd >= 0 && is_untouched(symbols, object, &status)) {
		elf->client = symbols->sources.client;
		elf->number = naming_client_object(elf->client, fd, &status);
	} else if (fd >= 0) {
		close(fd);
	}
	if (!elf->number) {
		free(elf);
		return NULL;
	}
	return elf;
}

struct memory_elf *memory_elf_open(const struct memory_symbols *symbols, const struct memory_object *object)
{
	const char *symfs = symbols->sources.symfs ?: "";
	struct memory_elf *elf = NULL;
	char path[4096];

	if (object->anonymous || object->name[0] != '/')
		return NULL;
	if (symbols->sources.client)
		return open_live(symbols, object);
	if (snprintf(path, sizeof(path), "%s%s", symfs, object->name) < (int)sizeof(path))
		elf = open_elf(symbols, object, path);
	if (!elf && object->build_id_size &&
	    !build_id_cache_path(object->build_id, object->build_id_size, "elf", path, sizeof(path)))
		elf = open_elf(symbols, object, path);
	if (!elf && object->build_id_size &&
	    !build_id_debug_path(object->build_id, object->build_id_size, path, sizeof(path)))
		elf = open_elf(symbols, object, path);
	return elf;
}

void memory_elf_close(struct memory_elf *elf)
{
	if (!elf)
		return;
	if (elf->dwfl)
		dwfl_end(elf->dwfl);
	free(elf);
}

/* By the helper; a name that is not there is "". */
static int ask(struct memory_elf *elf, __u64 unit, bool variable, const char **name, __u64 *offset)
{
	*name = elf->name;
	return naming_client_at(elf->client, elf->number, unit, variable, elf->name, sizeof(elf->name), offset);
}

int memory_elf_code(struct memory_elf *elf, __u64 unit, const char **name, __u64 *offset, char *line, size_t size)
{
	const char *file;
	__u64 address;
	Dwfl_Line *found;
	int number = 0;

	*line = 0;
	if (elf->client)
		return ask(elf, unit, false, name, offset);
	if (elf_symbols_address(elf->module, unit, false, &address))
		return -ENOENT;
	found = elf->source_lines ? dwfl_module_getsrc(elf->module, address) : NULL;
	file = found ? dwfl_lineinfo(found, NULL, &number, NULL, NULL, NULL) : NULL;
	if (file && number > 0)
		snprintf(line, size, "%s:%d", file, number);
	return elf_symbols_find(elf->module, address, false, name, offset);
}

int memory_elf_variable(struct memory_elf *elf, __u64 unit, const char **name, __u64 *offset)
{
	__u64 address;

	if (elf->client)
		return ask(elf, unit, true, name, offset);
	return elf_symbols_address(elf->module, unit, true, &address)
		       ?: elf_symbols_find(elf->module, address, true, name, offset);
}
