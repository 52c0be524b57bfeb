// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "hotspot/hotspot_code.h"

/* Steps through a segment map: each goes back by up to 254 segments, and code of more than some MiB there is none. */
#define MOST_STEPS 4096
#define MOST_SHIFT 20
/* 2 MiB of descriptions of one method. */
#define MOST_PCS   (1u << 17)
#define MOST_FRAME (1u << 20)
#define FREE       0xff

static int read_heap(struct hotspot_heap *heap, const struct hotspot_layout *layout, struct target_memory *memory,
		     __u64 at)
{
	const __u64 code = at + layout->fields[HEAP_MEMORY], map = at + layout->fields[HEAP_SEGMENTS];
	__u64 shift;
	int err = hotspot_member(layout, memory, code, SPACE_LOW, &heap->low);

	err = err ?: hotspot_member(layout, memory, code, SPACE_HIGH, &heap->high);
	err = err ?: hotspot_member(layout, memory, map, SPACE_LOW, &heap->segments);
	err = err ?: hotspot_member(layout, memory, map, SPACE_HIGH, &heap->segments_end);
	err = err ?: hotspot_member(layout, memory, at, HEAP_SEGMENT_SHIFT, &shift);
	if (!err && (shift > MOST_SHIFT || heap->low > heap->high || heap->segments > heap->segments_end))
		err = -EINVAL;
	heap->shift = err ? 0 : shift;
	return err;
}

int hotspot_heaps_read(struct hotspot_heaps *heaps, const struct hotspot_layout *layout, struct target_memory *memory)
{
	__u64 array, at, count, data;
	int err;

	heaps->count = 0;
	if (!hotspot_has(layout, CODE_CACHE_HEAPS)) {
		if (!hotspot_has(layout, CODE_CACHE_HEAP))
			return -ENODATA;
		err = target_word(memory, layout->fields[CODE_CACHE_HEAP], &at);
		err = err ?: read_heap(&heaps->list[0], layout, memory, at);
		heaps->count = !err;
		return err;
	}
	err = target_word(memory, layout->fields[CODE_CACHE_HEAPS], &array);
	err = err ?: hotspot_member(layout, memory, array, ARRAY_LENGTH, &count);
	err = err ?: hotspot_member(layout, memory, array, ARRAY_DATA, &data);
	for (__u64 i = 0; !err && i < count && i < HOTSPOT_HEAPS; i++) {
		err = target_word(memory, data + i * sizeof(at), &at);
		err = err ?: read_heap(&heaps->list[i], layout, memory, at);
		heaps->count += !err;
	}
	return err;
}

/* Where the blob begins that an address is in: each segment's byte says how far back its block's first one is. */
static int find_blob(const struct hotspot_heap *heap, const struct hotspot_layout *layout, struct target_memory *memory,
		     __u64 pc, __u64 *out)
{
	__u64 segment = (pc - heap->low) >> heap->shift, back = 1, used = 1, block;
	int err = 0;

	for (int i = 0; !err && back; i++) {
		if (i == MOST_STEPS || segment >= heap->segments_end - heap->segments)
			return -EINVAL;
		err = target_number(memory, heap->segments + segment, 1, &back);
		if (!err && back == FREE)
			return -ENOENT;
		if (!err && back > segment)
			return -EINVAL;
		segment -= err ? 0 : back;
	}
	block = heap->low + (segment << heap->shift);
	if (!err && hotspot_has(layout, BLOCK_USED))
		err = hotspot_member(layout, memory, block, BLOCK_USED, &used);
	*out = block + layout->sizes[SIZE_HEAP_BLOCK];
	return err ?: used ? 0 : -ENOENT;
}

/* What the debug information of an nmethod consists of. */
struct scopes {
	__u64 pcs, pcs_end;
	__u64 data;
	__u64 metadata[2]; /* where it may be, by version; 0: not there */
};

/* Until JDK 22 all lies in the blob; since 23 outside, but for the metadata, which left it with 25. */
static int find_scopes(const struct hotspot_layout *layout, struct target_memory *memory, __u64 blob,
		       struct scopes *out)
{
	__u64 base = blob, pcs, end, scopes, metadata, data = 0;
	int err = 0;

	if (hotspot_has(layout, NMETHOD_IMMUTABLE_DATA))
		err = hotspot_member(layout, memory, blob, NMETHOD_IMMUTABLE_DATA, &base);
	err = err ?: hotspot_member(layout, memory, blob, NMETHOD_PCS, &pcs);
	if (hotspot_has(layout, COMPILED_SCOPES)) {
		err = err ?: hotspot_member(layout, memory, blob, COMPILED_SCOPES, &out->data);
		err = err ?: hotspot_member(layout, memory, blob, NMETHOD_DEPENDENCIES, &end);
	} else {
		err = err ?: hotspot_member(layout, memory, blob, NMETHOD_SCOPES, &scopes);
		out->data = base + scopes;
		/* JDK 8 has the descriptions behind the scopes, later versions before them. */
		end = scopes;
		if (!err && scopes < pcs)
			err = hotspot_member(layout, memory, blob, NMETHOD_DEPENDENCIES, &end);
	}
	if (err)
		return err;
	out->pcs = base + pcs;
	out->pcs_end = base + end;
	if (!hotspot_has(layout, NMETHOD_METADATA)) {
		err = hotspot_member(layout, memory, blob, BLOB_MUTABLE_DATA, &data);
		err = err ?: hotspot_member(layout, memory, blob, BLOB_RELOCATION_SIZE, &metadata);
		out->metadata[0] = data + metadata;
		out->metadata[1] = 0;
		return err;
	}
	err = hotspot_member(layout, memory, blob, NMETHOD_METADATA, &metadata);
	if (!err && hotspot_has(layout, BLOB_DATA_OFFSET))
		err = hotspot_member(layout, memory, blob, BLOB_DATA_OFFSET, &data);
	out->metadata[0] = blob + metadata;
	/* 16 bits of JDK 23 and 24, from where the data begins. */
	out->metadata[1] = blob + data + (metadata & 0xffff);
	return err;
}

/* Where the scopes of a place of the code begin in their data; descriptions are sorted by their place. */
static int find_scope(const struct hotspot_layout *layout, struct target_memory *memory, const struct scopes *scopes,
		      __u32 place, __u64 *out)
{
	const __u64 size = layout->sizes[SIZE_PC_DESC];
	__u64 low = 0, high, at = 0;
	int err = 0;

	if (size == HOTSPOT_ABSENT || !size || scopes->pcs_end < scopes->pcs)
		return -ENODATA;
	high = (scopes->pcs_end - scopes->pcs) / size;
	if (high > MOST_PCS)
		return -EINVAL;
	while (!err && low < high) {
		const __u64 middle = (low + high) / 2;

		err = hotspot_member(layout, memory, scopes->pcs + middle * size, PC_OFFSET, &at);
		/* The first one has -1, before all code. */
		if (!err && (__s32)at == (__s32)place)
			return hotspot_member(layout, memory, scopes->pcs + middle * size, PC_SCOPE, out);
		if ((__s32)at < (__s32)place)
			low = middle + 1;
		else
			high = middle;
	}
	return err ?: -ENOENT;
}

/* Believed only if the scopes end at the compiled method itself. */
static int read_inlined(struct target_memory *memory, const struct scopes *scopes, __u64 metadata, __u32 without,
			__u64 scope, struct hotspot_code *code)
{
	__u32 count = 0;

	for (int i = 0; i <= HOTSPOT_INLINED; i++) {
		__u64 at = scopes->data + scope, method;
		__u32 sender, index;
		int err = hotspot_unsigned5(memory, &at, without, &sender);

		err = err ?: hotspot_unsigned5(memory, &at, without, &index);
		if (!err && !index)
			err = -EINVAL;
		err = err ?: target_word(memory, metadata + (index - 1ull) * sizeof(method), &method);
		if (err)
			return err;
		if (!sender) {
			code->inlined_count = method == code->method ? count : 0;
			return method == code->method ? 0 : -EINVAL;
		}
		if (count == HOTSPOT_INLINED)
			break;
		code->inlined[count++] = method;
		scope = sender;
	}
	return -E2BIG;
}

static void find_inlined(const struct hotspot_layout *layout, struct target_memory *memory, __u64 blob, __u64 pc,
			 struct hotspot_code *code)
{
	struct scopes scopes;
	__u64 scope;

	if (find_scopes(layout, memory, blob, &scopes) ||
	    find_scope(layout, memory, &scopes, pc - code->begin, &scope) || !scope)
		return;
	for (__u32 i = 0; i < 4; i++)
		if (scopes.metadata[i / 2] &&
		    !read_inlined(memory, &scopes, scopes.metadata[i / 2], 1 - i % 2, scope, code))
			return;
}

static int find_begin(const struct hotspot_layout *layout, struct target_memory *memory, __u64 blob, __u64 *out)
{
	int err;

	if (hotspot_has(layout, BLOB_CODE_BEGIN))
		return hotspot_member(layout, memory, blob, BLOB_CODE_BEGIN, out);
	err = hotspot_member(layout, memory, blob, BLOB_CODE_OFFSET, out);
	*out += blob;
	return err;
}

static int read_blob(const struct hotspot_layout *layout, struct target_memory *memory, __u64 blob, __u64 pc,
		     struct hotspot_code *code)
{
	__u64 name, size, words;
	int err = hotspot_member(layout, memory, blob, BLOB_NAME, &name);

	err = err ?: hotspot_member(layout, memory, blob, BLOB_SIZE, &size);
	err = err ?: hotspot_member(layout, memory, blob, BLOB_FRAME_SIZE, &words);
	err = err ?: find_begin(layout, memory, blob, &code->begin);
	err = err ?: target_text(memory, name, code->name, sizeof(code->name));
	if (err)
		return err;
	if (pc < code->begin || pc - blob >= size || (__s32)words < 0 || words > MOST_FRAME / sizeof(__u64))
		return -ENOENT;
	code->frame_bytes = words * sizeof(__u64);
	if (!strcmp(code->name, "Interpreter")) {
		code->kind = HOTSPOT_INTERPRETER;
	} else if (!strcmp(code->name, "nmethod") || !strcmp(code->name, "native nmethod")) {
		code->kind = HOTSPOT_COMPILED;
		err = hotspot_member(layout, memory, blob,
				     hotspot_has(layout, NMETHOD_METHOD) ? NMETHOD_METHOD : COMPILED_METHOD,
				     &code->method);
		if (!err)
			find_inlined(layout, memory, blob, pc, code);
	}
	return err;
}

int hotspot_code_at(const struct hotspot_heaps *heaps, const struct hotspot_layout *layout,
		    struct target_memory *memory, __u64 pc, struct hotspot_code *out)
{
	*out = (struct hotspot_code){.kind = HOTSPOT_STUB};
	for (__u32 i = 0; i < heaps->count; i++) {
		const struct hotspot_heap *heap = &heaps->list[i];
		__u64 blob;
		int err;

		if (pc < heap->low || pc >= heap->high)
			continue;
		err = find_blob(heap, layout, memory, pc, &blob);
		return err ?: read_blob(layout, memory, blob, pc, out);
	}
	return -ENOENT;
}
