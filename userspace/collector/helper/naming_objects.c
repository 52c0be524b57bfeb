// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/auxv.h>

#include "elf/demangle.h"
#include "elf/elf_symbols.h"
#include "elf/naming_go.h"
#include "elf/naming_index.h"
#include "elf/naming_map.h"
#include "helper/naming_objects.h"

/* The vDSO is a few pages. */
#define VDSO_LARGEST (64u << 10)

struct object {
	Dwfl *dwfl; /* NULL: free */
	Dwfl_Module *module;
	struct naming_index *index; /* NULL: not needed yet */
	struct naming_go go;        /* of a Go program */
	bool go_sought;
	struct naming_map *map; /* instead of all that */
	int debug;              /* its debug file, until libdwfl takes it; -1: none */
};

static struct object objects[NAMING_OBJECTS];

/* The helper can open nothing by itself: what it has was sent to it. */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc,
			  char **debuginfo_file_name)
{
	struct object *object = *userdata;
	int fd = object ? object->debug : -1;

	if (fd >= 0) {
		object->debug = -1;
		*debuginfo_file_name = strdup("debug file");
	}
	return fd;
}

static size_t vdso_size(const char *image)
{
	const GElf_Ehdr *header = (const GElf_Ehdr *)image;
	size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;

	return size < VDSO_LARGEST ? size : 0;
}

static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name,
		    Elf **elf)
{
	char *image = (char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);

	if (image && vdso_size(image))
		*elf = elf_memory(image, vdso_size(image));
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_debuginfo,
};

static Dwfl_Module *report(struct object *object, int fd)
{
	GElf_Addr vdso = getauxval(AT_SYSINFO_EHDR);
	Dwfl_Module *module = NULL;

	dwfl_report_begin(object->dwfl);
	if (fd >= 0)
		module = dwfl_report_elf(object->dwfl, "object", "object", fd, 0, true);
	else if (vdso && vdso_size((const char *)(uintptr_t)vdso))
		module =
			dwfl_report_module(object->dwfl, "vdso", vdso, vdso + vdso_size((const char *)(uintptr_t)vdso));
	dwfl_report_end(object->dwfl, NULL, NULL);
	return module;
}

int naming_object_open(__u32 place, int fd, struct naming_answer *answer)
{
	struct object *object = &objects[place];
	const unsigned char *id;
	GElf_Addr address;
	void **userdata;
	int size;

	naming_object_close(place);
	object->debug = -1;
	object->dwfl = dwfl_begin(&callbacks);
	object->module = object->dwfl ? report(object, fd) : NULL;
	if (!object->module && fd >= 0)
		close(fd);
	if (!object->module || !dwfl_module_getelf(object->module, &address)) {
		naming_object_close(place);
		return -ENOEXEC;
	}
	dwfl_module_info(object->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = object;
	size = dwfl_module_build_id(object->module, &id, &address);
	if (size > 0 && size <= (int)sizeof(answer->id)) {
		memcpy(answer->id, id, size);
		answer->id_size = size;
	}
	return 0;
}

int naming_object_open_map(__u32 place, int fd)
{
	naming_object_close(place);
	objects[place].map = naming_map_open(fd);
	return objects[place].map ? 0 : -ENOEXEC;
}

int naming_object_debug(__u32 place, int fd)
{
	struct object *object = &objects[place];

	if (!object->module || object->debug >= 0) {
		close(fd);
		return -EINVAL;
	}
	object->debug = fd;
	return 0;
}

void naming_object_close(__u32 place)
{
	struct object *object = &objects[place];

	naming_map_close(object->map);
	if (object->dwfl) {
		if (object->debug >= 0)
			close(object->debug);
		naming_index_close(object->index);
		dwfl_end(object->dwfl);
	}
	*object = (struct object){.debug = -1};
}

Dwfl_Module *naming_object_module(__u32 place)
{
	return objects[place].module;
}

/*
 * Where in memory an offset of the file belongs.  The begin of a segment comes
 * first: the page that two segments share is mapped twice.
 */
static int address_of_offset(Elf *file, __u64 offset, GElf_Addr *out)
{
	const __u64 page = sysconf(_SC_PAGESIZE);
	bool found = false;
	size_t count = 0;

	if (elf_getphdrnum(file, &count))
		return -ENOEXEC;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;
		__u64 begin;

		if (!gelf_getphdr(file, i, &segment) || segment.p_type != PT_LOAD)
			continue;
		begin = segment.p_offset & -page;
		if (offset < begin || offset >= segment.p_offset + segment.p_filesz || (found && begin != offset))
			continue;
		*out = segment.p_vaddr - segment.p_offset + offset;
		if (begin == offset)
			return 0;
		found = true;
	}
	return found ? 0 : -ERANGE;
}

/* With what is zero at its begin (.bss), which is mapped behind the file's part up to the page's end. */
static bool in_a_segment(Elf *file, GElf_Addr address)
{
	const __u64 page = sysconf(_SC_PAGESIZE);
	size_t count = 0;

	if (elf_getphdrnum(file, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(file, i, &segment) && segment.p_type == PT_LOAD &&
		    address >= (segment.p_vaddr & -page) &&
		    address < ((segment.p_vaddr + segment.p_memsz + page - 1) & -page))
			return true;
	}
	return false;
}

int naming_object_address(__u32 object, const struct naming_place *place, GElf_Addr *out)
{
	Dwfl_Module *module = naming_object_module(object);
	GElf_Addr bias, address;
	Elf *file;
	int err;

	file = module ? dwfl_module_getelf(module, &bias) : NULL;
	if (!file)
		return -ENOENT;
	err = address_of_offset(file, place->file_offset, &address);
	if (err)
		return err;
	address += place->distance;
	if (!in_a_segment(file, address))
		return -ERANGE;
	*out = address + bias;
	return 0;
}

/* Go's own table, of a Go program. */
static const struct naming_go *go_of(struct object *object, GElf_Addr *bias)
{
	Elf *file = dwfl_module_getelf(object->module, bias);

	if (!object->go_sought && file)
		naming_go_open(&object->go, file);
	object->go_sought = true;
	return &object->go;
}

static const char *name_of(const struct object *object, int number)
{
	GElf_Addr address;
	GElf_Sym symbol;
	const char *name =
		number < 0 ? NULL
			   : dwfl_module_getsym_info(object->module, number, &symbol, &address, NULL, NULL, NULL);

	return name ?: "";
}

/*
 * Functions of glibc that it does not export, where its symbol table was
 * stripped: those of one source file stand together, before the first that is
 * exported or behind the last.  Who waits there has called what is shown.
 */
static const char *unnamed_in_glibc(const struct object *object, GElf_Addr address)
{
	static const struct {
		const char *before, *behind; /* NULL: any */
		const char *shown;
	} files[] = {
		{NULL, "__libc_malloc", "malloc"},        {NULL, "__default_morecore", "malloc"},
		{NULL, "__libc_free", "malloc"},          {NULL, "__libc_realloc", "malloc"},
		{NULL, "__libc_memalign", "malloc"},      {NULL, "__libc_calloc", "malloc"},
		{NULL, "__pthread_once", "pthread_once"}, {"tzset", "getitimer", "tzset"},
	};
	const char *name[2];
	int before, behind;

	naming_index_beside(object->index, address, &before, &behind);
	name[0] = name_of(object, before);
	name[1] = name_of(object, behind);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if ((!files[i].before || !strcmp(files[i].before, name[0])) && !strcmp(files[i].behind, name[1]))
			return files[i].shown;
	return NULL;
}

int naming_object_symbol(__u32 object, const struct naming_place *place, struct naming_answer *answer)
{
	struct object *named = &objects[object];
	GElf_Addr address, begin, bias = 0;
	const char *name;
	int err;

	if (named->map) {
		name = naming_map_find(named->map, place->distance, &answer->offset);
		snprintf(answer->name, sizeof(answer->name), "%s", name ? name : "");
		return 0;
	}
	err = naming_object_address(object, place, &address);
	if (err)
		return err;
	name = naming_go_find(go_of(named, &bias), address - bias, &answer->offset);
	if (name) {
		snprintf(answer->name, sizeof(answer->name), "%s", name);
		return 0;
	}
	if (!named->index)
		named->index = naming_index_open(named->module);
	if (!named->index)
		return -ENOMEM;
	name = name_of(named, naming_index_find(named->index, address, &begin));
	if (*name) {
		demangle(name, answer->name, sizeof(answer->name));
		answer->offset = address - begin;
		return 0;
	}
	name = unnamed_in_glibc(named, address);
	if (name)
		snprintf(answer->name, sizeof(answer->name), "%s", name);
	return 0;
}

int naming_object_at(__u32 object, __u64 file_offset, bool variable, struct naming_answer *answer)
{
	Dwfl_Module *module = objects[object].module;
	const char *name;
	__u64 address;
	int err = module ? elf_symbols_address(module, file_offset, variable, &address) : -ENOENT;

	err = err ?: elf_symbols_find(module, address, variable, &name, (__u64 *)&answer->offset);
	if (!err)
		snprintf(answer->name, sizeof(answer->name), "%s", name);
	return err;
}

int naming_object_find(__u32 object, __u64 file_offset, const char *name, struct naming_answer *answer)
{
	const struct naming_place begin = {.file_offset = file_offset};
	GElf_Addr from, bias;
	struct object *named = &objects[object];
	__u64 function;
	int err = naming_object_address(object, &begin, &from), count;

	if (err)
		return err;
	count = dwfl_module_getsymtab(naming_object_module(object));
	for (int i = 0; i < count; i++) {
		GElf_Addr address;
		GElf_Sym symbol;
		const char *found =
			dwfl_module_getsym_info(naming_object_module(object), i, &symbol, &address, NULL, NULL, NULL);

		if (!found || symbol.st_shndx == SHN_UNDEF || strcmp(found, name))
			continue;
		answer->offset = address - from;
		return 0;
	}
	if (!naming_go_address(go_of(named, &bias), name, &function))
		return -ENOENT;
	answer->offset = function + bias - from;
	return 0;
}
