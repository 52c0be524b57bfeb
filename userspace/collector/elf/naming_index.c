// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "elf/naming_index.h"

struct entry {
	GElf_Addr begin;
	GElf_Addr end;      /* begin, if it has no size */
	GElf_Addr farthest; /* end of all entries up to this one */
	uint32_t number;
	uint16_t section;
	uint8_t rank; /* the highest is shown: global, weak, local */
};

struct naming_index {
	size_t count;
	struct entry entries[];
};

static uint8_t rank_of(const GElf_Sym *symbol)
{
	switch (GELF_ST_BIND(symbol->st_info)) {
	case STB_LOCAL:
		return 0;
	case STB_WEAK:
		return 1;
	default:
		return 2;
	}
}

static bool has_address(const GElf_Sym *symbol, const char *name)
{
	const int type = GELF_ST_TYPE(symbol->st_info);

	/* A thread's variable has an offset, not an address. */
	return name && *name && symbol->st_shndx != SHN_UNDEF && type != STT_SECTION && type != STT_FILE &&
	       type != STT_TLS;
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	/* Of what is equal the first in the file is found first: from behind. */
	return x->number > y->number ? -1 : x->number < y->number;
}

struct naming_index *naming_index_open(Dwfl_Module *module)
{
	const int symbols = dwfl_module_getsymtab(module);
	struct naming_index *index = malloc(sizeof(*index) + (symbols > 0 ? symbols : 0) * sizeof(index->entries[0]));
	GElf_Addr farthest = 0;

	if (!index)
		return NULL;
	index->count = 0;
	for (int i = 0; i < symbols; i++) {
		GElf_Addr address;
		GElf_Sym symbol;
		const char *name = dwfl_module_getsym_info(module, i, &symbol, &address, NULL, NULL, NULL);

		if (!has_address(&symbol, name))
			continue;
		index->entries[index->count++] = (struct entry){
			.begin = address,
			.end = address + symbol.st_size,
			.number = i,
			.section = symbol.st_shndx,
			.rank = rank_of(&symbol),
		};
	}
	qsort(index->entries, index->count, sizeof(index->entries[0]), compare);
	for (size_t i = 0; i < index->count; i++) {
		farthest = index->entries[i].end > farthest ? index->entries[i].end : farthest;
		index->entries[i].farthest = farthest;
	}
	return index;
}

void naming_index_close(struct naming_index *index)
{
	free(index);
}

/* How many entries begin at the address or before. */
static size_t begun(const struct naming_index *index, GElf_Addr address)
{
	return SORTED_UPTO(index->entries, index->count, begin, address);
}

int naming_index_find(const struct naming_index *index, GElf_Addr address, GElf_Addr *begin)
{
	const size_t last = begun(index, address);

	for (size_t i = last; i-- && index->entries[i].farthest > address;) {
		if (index->entries[i].end <= address)
			continue;
		*begin = index->entries[i].begin;
		return index->entries[i].number;
	}
	/* Code written in assembly has labels without a size: the label counts up to the next symbol. */
	if (!last || index->entries[last - 1].end != index->entries[last - 1].begin)
		return -1;
	*begin = index->entries[last - 1].begin;
	return index->entries[last - 1].number;
}

void naming_index_beside(const struct naming_index *index, GElf_Addr address, int *before, int *behind)
{
	const size_t at = begun(index, address);

	*before = at ? (int)index->entries[at - 1].number : -1;
	*behind = at < index->count ? (int)index->entries[at].number : -1;
}
