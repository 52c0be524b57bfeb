// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "elf/elf_symbols.h"

int elf_symbols_address(Dwfl_Module *module, __u64 unit, bool with_bss, __u64 *out)
{
	GElf_Addr bias;
	Elf *file = dwfl_module_getelf(module, &bias);
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

int elf_symbols_find(Dwfl_Module *module, __u64 address, bool variable, const char **name, __u64 *offset)
{
	GElf_Off in_symbol = 0;
	GElf_Sym symbol;
	const char *found = dwfl_module_addrinfo(module, address, &in_symbol, &symbol, NULL, NULL, NULL);

	if (!found || !*found || (variable && GELF_ST_TYPE(symbol.st_info) == STT_FUNC) ||
	    (variable && in_symbol >= symbol.st_size))
		return -ENOENT;
	*name = found;
	*offset = in_symbol;
	return 0;
}
