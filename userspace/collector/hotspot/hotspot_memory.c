// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "hotspot/hotspot_memory.h"

void hotspot_memory_begin(struct hotspot_memory *memory)
{
	memory->left = HOTSPOT_MOST;
	memset(memory->at, 0, sizeof(memory->at));
}

static int find_page(struct hotspot_memory *memory, __u64 address, const __u8 **out)
{
	const __u32 place = address / HOTSPOT_PAGE % HOTSPOT_PAGES;
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

int hotspot_read(struct hotspot_memory *memory, __u64 address, void *out, size_t size)
{
	__u8 *to = out;

	if (!address || address + size < address)
		return -EFAULT;
	while (size) {
		const size_t within = address % HOTSPOT_PAGE, rest = HOTSPOT_PAGE - within;
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

int hotspot_number(struct hotspot_memory *memory, __u64 address, size_t size, __u64 *out)
{
	__u8 byte;
	__u16 half;
	__u32 whole;
	int err;

	switch (size) {
	case sizeof(byte):
		err = hotspot_read(memory, address, &byte, size);
		*out = err ? 0 : byte;
		return err;
	case sizeof(half):
		err = hotspot_read(memory, address, &half, size);
		*out = err ? 0 : half;
		return err;
	case sizeof(whole):
		err = hotspot_read(memory, address, &whole, size);
		*out = err ? 0 : whole;
		return err;
	default:
		*out = 0;
		return hotspot_read(memory, address, out, sizeof(*out));
	}
}

int hotspot_word(struct hotspot_memory *memory, __u64 address, __u64 *out)
{
	return hotspot_number(memory, address, sizeof(*out), out);
}

int hotspot_words(struct hotspot_memory *memory, const __u64 *addresses, __u32 count, __u64 *out)
{
	int err = 0;

	for (__u32 first = 0; !err && first < count; first += HOTSPOT_WORDS) {
		const __u32 rest = count - first, part = rest < HOTSPOT_WORDS ? rest : HOTSPOT_WORDS;

		if (!memory->left)
			return -E2BIG;
		memory->left--;
		if (memory->fetch_words)
			err = memory->fetch_words(memory->context, addresses + first, part, out + first);
		for (__u32 i = 0; !err && !memory->fetch_words && i < part; i++)
			err = hotspot_word(memory, addresses[first + i], &out[first + i]);
	}
	return err;
}

int hotspot_text(struct hotspot_memory *memory, __u64 address, char *out, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		int err = hotspot_read(memory, address + i, out + i, 1);

		if (err)
			return err;
		if (!out[i])
			return 0;
	}
	out[size - 1] = 0;
	return 0;
}

int hotspot_unsigned5(struct hotspot_memory *memory, __u64 *at, __u32 without, __u32 *out)
{
	__u32 sum = 0;

	for (int i = 0; i < 5; i++) {
		__u64 byte;
		int err = hotspot_number(memory, (*at)++, 1, &byte);

		if (err)
			return err;
		if (byte < without)
			return -EINVAL;
		sum += (__u32)(byte - without) << 6 * i;
		if (byte < 192)
			break;
	}
	*out = sum;
	return 0;
}
