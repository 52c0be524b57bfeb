// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "base/target_memory.h"

void target_begin(struct target_memory *memory)
{
	memory->left = TARGET_MOST;
	memset(memory->at, 0, sizeof(memory->at));
}

static int find_page(struct target_memory *memory, __u64 address, const __u8 **out)
{
	const __u32 place = address / TARGET_PAGE % TARGET_PAGES;
	int err;

	*out = memory->pages[place];
	if (memory->at[place] == address + 1)
		return 0;
	if (!memory->left)
		return -E2BIG;
	memory->left--;
	memory->at[place] = 0;
	err = memory->fetch(memory->context, address, memory->pages[place]);
	if (!err)
		memory->at[place] = address + 1;
	return err;
}

int target_read(struct target_memory *memory, __u64 address, void *out, size_t size)
{
	__u8 *to = out;

	if (!address || address + size < address)
		return -EFAULT;
	while (size) {
		const size_t within = address % TARGET_PAGE, rest = TARGET_PAGE - within;
		const size_t part = size < rest ? size : rest;
		const __u8 *page;
		int err = find_page(memory, address - within, &page);

		if (err)
			return err;
		memcpy(to, page + within, part);
		to += part;
		address += part;
		size -= part;
	}
	return 0;
}

int target_number(struct target_memory *memory, __u64 address, size_t size, __u64 *out)
{
	__u8 byte;
	__u16 half;
	__u32 whole;
	int err;

	switch (size) {
	case sizeof(byte):
		err = target_read(memory, address, &byte, size);
		*out = err ? 0 : byte;
		return err;
	case sizeof(half):
		err = target_read(memory, address, &half, size);
		*out = err ? 0 : half;
		return err;
	case sizeof(whole):
		err = target_read(memory, address, &whole, size);
		*out = err ? 0 : whole;
		return err;
	default:
		*out = 0;
		return target_read(memory, address, out, sizeof(*out));
	}
}

int target_word(struct target_memory *memory, __u64 address, __u64 *out)
{
	return target_number(memory, address, sizeof(*out), out);
}

int target_words(struct target_memory *memory, const __u64 *addresses, __u32 count, __u64 *out)
{
	int err = 0;

	for (__u32 first = 0; !err && first < count; first += TARGET_WORDS) {
		const __u32 rest = count - first, part = rest < TARGET_WORDS ? rest : TARGET_WORDS;

		if (!memory->left)
			return -E2BIG;
		memory->left--;
		if (memory->fetch_words)
			err = memory->fetch_words(memory->context, addresses + first, part, out + first);
		for (__u32 i = 0; !err && !memory->fetch_words && i < part; i++)
			err = target_word(memory, addresses[first + i], &out[first + i]);
	}
	return err;
}

int target_text(struct target_memory *memory, __u64 address, char *out, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		int err = target_read(memory, address + i, out + i, 1);

		if (err)
			return err;
		if (!out[i])
			return 0;
	}
	out[size - 1] = 0;
	return 0;
}
