// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include <gelf.h>

#include "elf/naming_go.h"

/*
 * Since 1.26 the table no longer says where the code begins.  What does is the description of the module, which has
 * a section of its own since then; these are src/runtime/symtab.go's struct moduledata: a pointer, six slices, three
 * pointers, text.
 */
#define MODULE_TEXT   176
#define TABLE_ALIGNED 8

static bool section_named(Elf *file, const char *const *names, Elf_Scn **found, GElf_Shdr *header)
{
	size_t strings;

	if (elf_getshdrstrndx(file, &strings))
		return false;
	for (Elf_Scn *section = elf_nextscn(file, NULL); section; section = elf_nextscn(file, section)) {
		const char *name = gelf_getshdr(section, header) ? elf_strptr(file, strings, header->sh_name) : NULL;

		for (int i = 0; name && names[i]; i++)
			if (!strcmp(name, names[i])) {
				*found = section;
				return true;
			}
	}
	return false;
}

/* What a program that can lie anywhere writes at an address when it starts; 0: nothing. */
static __u64 relocated(Elf *file, __u64 address)
{
	GElf_Shdr header;
	GElf_Rela entry;

	for (Elf_Scn *section = elf_nextscn(file, NULL); section; section = elf_nextscn(file, section)) {
		Elf_Data *data;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA || !header.sh_entsize)
			continue;
		data = elf_getdata(section, NULL);
		for (size_t i = 0; data && i < header.sh_size / header.sh_entsize && gelf_getrela(data, i, &entry); i++)
			if (entry.r_offset == address)
				return entry.r_addend;
	}
	return 0;
}

static __u64 text_of_module(Elf *file)
{
	static const char *const names[] = {".go.module", NULL};
	GElf_Shdr header;
	Elf_Scn *section;
	Elf_Data *data;
	__u64 text;

	if (!section_named(file, names, &section, &header))
		return 0;
	data = elf_rawdata(section, NULL);
	if (!data || !data->d_buf || data->d_size < MODULE_TEXT + sizeof(text))
		return 0;
	memcpy(&text, (const char *)data->d_buf + MODULE_TEXT, sizeof(text));
	return text ?: relocated(file, header.sh_addr + MODULE_TEXT);
}

static __u64 text_section(Elf *file)
{
	static const char *const names[] = {".text", NULL};
	GElf_Shdr header;
	Elf_Scn *section;

	return section_named(file, names, &section, &header) ? header.sh_addr : 0;
}

/* The C linker puts the table of a program that can lie anywhere among other data; at is where in the section it is. */
static bool table_among(struct go_table *table, Elf_Scn *section, size_t *at)
{
	const Elf_Data *data = elf_rawdata(section, NULL);

	for (*at = 0; data && data->d_buf && *at < data->d_size; *at += TABLE_ALIGNED)
		if (go_table_read(table, (const char *)data->d_buf + *at, data->d_size - *at))
			return true;
	return false;
}

static bool find_table(struct go_table *table, Elf *file, __u64 *address)
{
	static const char *const go_programs[] = {".go.buildinfo", NULL};
	static const char *const tables[] = {".gopclntab", ".data.rel.ro.gopclntab", NULL};
	static const char *const among[] = {".data.rel.ro", NULL};
	GElf_Shdr header;
	Elf_Scn *section;
	size_t at = 0;

	if (!section_named(file, go_programs, &section, &header) ||
	    (!section_named(file, tables, &section, &header) && !section_named(file, among, &section, &header)) ||
	    header.sh_flags & SHF_COMPRESSED || !table_among(table, section, &at))
		return false;
	*address = header.sh_addr + at;
	return true;
}

void naming_go_open(struct naming_go *go, Elf *file)
{
	__u64 address;

	*go = (struct naming_go){};
	if (!find_table(&go->table, file, &address))
		return;
	go->text = go->table.text;
	if (!go->text)
		go->text = text_of_module(file);
	if (!go->text)
		go->text = relocated(file, address + go->table.text_at);
	if (!go->text)
		go->text = text_section(file);
	go->known = go->text;
}

const char *naming_go_find(const struct naming_go *go, __u64 address, __u64 *offset)
{
	struct go_function function;

	if (!go->known || address < go->text || !go_table_at(&go->table, address - go->text, &function))
		return NULL;
	*offset = address - go->text - function.begin;
	return function.name;
}

bool naming_go_address(const struct naming_go *go, const char *name, __u64 *address)
{
	struct go_function function;

	if (!go->known || !go_table_named(&go->table, name, &function))
		return false;
	*address = go->text + function.begin;
	return true;
}
