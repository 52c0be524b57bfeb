// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The format is that of Go's src/internal/abi/symtab.go and src/debug/gosym/pclntab.go: a header of words, then the
 * entries of functions, sorted by address: pairs of 32 bits, where the code begins and where its description lies.
 * Behind the last is where its code ends.
 */
#include <string.h>

#include "elf/go_table.h"

#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u
#define HEADER     8 /* before the words */
#define ENTRY      8

enum word { FUNCTIONS, FILES, TEXT, NAMES, UNITS, FILE_NAMES, PLACES, ENTRIES, WORDS };

/* The caller has seen that it is in the table. */
static __u32 half(const struct go_table *table, size_t at)
{
	__u32 value;

	memcpy(&value, table->bytes + at, sizeof(value));
	return value;
}

static __u64 word_of(const struct go_table *table, enum word which)
{
	const __u8 bytes = table->bytes[7];
	__u64 value = 0;

	memcpy(&value, table->bytes + HEADER + which * bytes, bytes);
	return value;
}

bool go_table_read(struct go_table *table, const void *bytes, size_t size)
{
	*table = (struct go_table){.bytes = bytes, .size = size};
	if (size < HEADER || (half(table, 0) != MAGIC_1_18 && half(table, 0) != MAGIC_1_20))
		return false;
	if (table->bytes[4] || table->bytes[5] || (table->bytes[7] != 4 && table->bytes[7] != 8) ||
	    size < HEADER + WORDS * (size_t)table->bytes[7])
		return false;
	table->functions = word_of(table, FUNCTIONS);
	table->text = word_of(table, TEXT);
	table->text_at = HEADER + TEXT * table->bytes[7];
	table->names = word_of(table, NAMES);
	table->entries = word_of(table, ENTRIES);
	if (table->names >= size || table->entries >= size || size - table->entries < sizeof(__u32))
		return false;
	/* With the end of the last. */
	return table->functions && table->functions <= (size - table->entries - sizeof(__u32)) / ENTRY;
}

static __u32 begin_of(const struct go_table *table, __u64 number)
{
	return half(table, table->entries + number * ENTRY);
}

static bool describe(const struct go_table *table, __u64 number, struct go_function *function)
{
	const size_t room = table->size - table->entries;
	const __u32 place = half(table, table->entries + number * ENTRY + sizeof(__u32));
	__u32 name;

	/* Its own begin, then its name's place. */
	if (room < 2 * sizeof(__u32) || place > room - 2 * sizeof(__u32))
		return false;
	name = half(table, table->entries + place + sizeof(__u32));
	if (name >= table->size - table->names ||
	    !memchr(table->bytes + table->names + name, 0, table->size - table->names - name))
		return false;
	function->begin = begin_of(table, number);
	function->end = begin_of(table, number + 1);
	function->name = (const char *)table->bytes + table->names + name;
	return true;
}

bool go_table_at(const struct go_table *table, __u64 place, struct go_function *function)
{
	__u64 low = 0, high = table->functions;

	while (low < high) {
		const __u64 middle = low + (high - low) / 2;

		if (begin_of(table, middle) <= place)
			low = middle + 1;
		else
			high = middle;
	}
	/* The table may lie: then nothing is there. */
	return low && describe(table, low - 1, function) && place >= function->begin && place < function->end;
}

bool go_table_named(const struct go_table *table, const char *name, struct go_function *function)
{
	for (__u64 i = 0; i < table->functions; i++)
		if (describe(table, i, function) && !strcmp(function->name, name) && function->begin < function->end)
			return true;
	return false;
}
