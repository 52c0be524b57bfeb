// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "hotspot/hotspot_names.h"

static int symbol_length(const struct hotspot_layout *layout, struct target_memory *memory, __u64 symbol, __u64 *out)
{
	int err;

	if (hotspot_has(layout, SYMBOL_LENGTH))
		return hotspot_member(layout, memory, symbol, SYMBOL_LENGTH, out);
	err = hotspot_member(layout, memory, symbol, SYMBOL_LENGTH_AND_COUNT, out);
	*out >>= 16;
	return err;
}

int hotspot_symbol_text(const struct hotspot_layout *layout, struct target_memory *memory, __u64 symbol, char *out,
			size_t size)
{
	__u64 length;
	int err = symbol_length(layout, memory, symbol, &length);

	if (err)
		return err;
	if (!length || size < 2)
		return -ENODATA;
	if (length > size - 1)
		length = size - 1;
	err = target_read(memory, symbol + layout->fields[SYMBOL_BODY], out, length);
	out[err ? 0 : length] = 0;
	for (__u64 i = 0; !err && i < length; i++) {
		if ((unsigned char)out[i] <= ' ' || out[i] == 0x7f)
			err = -EILSEQ;
		if (out[i] == '/')
			out[i] = '.';
	}
	return err;
}

int hotspot_method_name(const struct hotspot_layout *layout, struct target_memory *memory, __u64 method, char *out,
			size_t size)
{
	__u64 const_method, constants, holder, index, length = 0, class_symbol, symbol;
	size_t used;
	int err;

	/* A pointer of HotSpot's is a multiple of a word. */
	if (method % sizeof(method))
		return -EINVAL;
	err = hotspot_member(layout, memory, method, METHOD_CONST, &const_method);
	err = err ?: hotspot_member(layout, memory, const_method, CONST_METHOD_CONSTANTS, &constants);
	err = err ?: hotspot_member(layout, memory, const_method, CONST_METHOD_NAME, &index);
	err = err ?: hotspot_member(layout, memory, constants, CONSTANTS_HOLDER, &holder);
	if (!err && hotspot_has(layout, CONSTANTS_LENGTH)) {
		err = hotspot_member(layout, memory, constants, CONSTANTS_LENGTH, &length);
		err = err ?: index < length ? 0 : -EINVAL;
	}
	err = err ?: hotspot_member(layout, memory, holder, KLASS_NAME, &class_symbol);
	/* Old versions mark an entry in its lowest bit. */
	err = err
		      ?: target_word(memory, constants + layout->sizes[SIZE_CONSTANT_POOL] + index * sizeof(symbol),
				     &symbol);
	err = err ?: hotspot_symbol_text(layout, memory, class_symbol, out, size);
	if (err)
		return err;
	used = strlen(out);
	/* The method's name is worth more than the end of a long class's. */
	if (used > size / 2)
		used = size / 2;
	out[used++] = '.';
	return hotspot_symbol_text(layout, memory, symbol & ~1ull, out + used, size - used);
}
