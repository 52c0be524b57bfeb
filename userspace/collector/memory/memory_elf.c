// SPDX-License-Identifier: GPL-2.0-or-later
/* Symbols and lines of files that processes mapped, by elfutils. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <elfutils/libdwfl.h>

#include "base/regular_file.h"
#include "names/build_id.h"
#include "names/debug_files.h"
#include "memory/memory_elf.h"

struct memory_elf {
	Dwfl *dwfl;
	Dwfl_Module *module;
	bool source_lines;
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

struct memory_elf *memory_elf_open(const struct memory_symbols *symbols, const struct memory_object *object)
{
	const char *symfs = symbols->sources.symfs ?: "";
	struct memory_elf *elf = NULL;
	char path[4096];

	if (object->anonymous || object->name[0] != '/')
		return NULL;
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

/* From an offset in the file to an address in the module; with_bss: also behind the file's part of a segment. */
static int find_address(struct memory_elf *elf, __u64 unit, bool with_bss, __u64 *out)
{
	GElf_Addr bias;
	Elf *file = dwfl_module_getelf(elf->module, &bias);
	size_t count;

	if (!file || elf_getphdrnum(file, &count))
		return -ENOENT;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;
		__u64 size;

		if (!gelf_getphdr(file, i, &segment) || segment.p_type != PT_LOAD)
			continue;
		/* A file of debug symbols alone has the segments, and nothing in them. */
		size = with_bss || !segment.p_filesz ? segment.p_memsz : segment.p_filesz;
		if (unit < segment.p_offset || unit - segment.p_offset >= size ||
		    (with_bss && !(segment.p_flags & PF_W)))
			continue;
		*out = unit - segment.p_offset + segment.p_vaddr + bias;
		return 0;
	}
	return -ENOENT;
}

static int find_symbol(struct memory_elf *elf, __u64 address, bool variable, const char **name, __u64 *offset)
{
	GElf_Off in_symbol = 0;
	GElf_Sym symbol;
	const char *found = dwfl_module_addrinfo(elf->module, address, &in_symbol, &symbol, NULL, NULL, NULL);

	if (!found || !*found || (variable && GELF_ST_TYPE(symbol.st_info) == STT_FUNC) ||
	    (variable && in_symbol >= symbol.st_size))
		return -ENOENT;
	*name = found;
	*offset = in_symbol;
	return 0;
}

int memory_elf_code(struct memory_elf *elf, __u64 unit, const char **name, __u64 *offset, char *line, size_t size)
{
	const char *file;
	__u64 address;
	Dwfl_Line *found;
	int number = 0;

	*line = 0;
	if (find_address(elf, unit, false, &address))
		return -ENOENT;
	found = elf->source_lines ? dwfl_module_getsrc(elf->module, address) : NULL;
	file = found ? dwfl_lineinfo(found, NULL, &number, NULL, NULL, NULL) : NULL;
	if (file && number > 0)
		snprintf(line, size, "%s:%d", file, number);
	return find_symbol(elf, address, false, name, offset);
}

int memory_elf_variable(struct memory_elf *elf, __u64 unit, const char **name, __u64 *offset)
{
	__u64 address;

	return find_address(elf, unit, true, &address) ?: find_symbol(elf, address, true, name, offset);
}
