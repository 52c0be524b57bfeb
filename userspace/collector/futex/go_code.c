// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/patience.h"
#include "base/proc.h"
#include "base/proc_mapping.h"
#include "futex/go_code.h"
#include "naming/user_symbols.h"

static ssize_t read_program(__u32 tgid, size_t most, struct go_place *place)
{
	int fd = proc_open_fd(tgid, "exe");
	ssize_t bytes;

	if (fd < 0)
		return fd;
	bytes = pread(fd, place->code, most, place->file_offset);
	if (bytes < 0)
		bytes = -errno;
	close(fd);
	return bytes;
}

/* The symbol may be another file's that the process has mapped. */
static bool same_in_memory(__u32 tgid, const struct go_place *place)
{
	__u8 code[GO_CODE_BYTES];

	return patience_read(tgid, place->address, code, place->code_bytes) == (ssize_t)place->code_bytes &&
	       !memcmp(code, place->code, place->code_bytes);
}

int go_place_find(struct user_symbols *users, __u32 tgid, const char *function, size_t most, struct go_place *out)
{
	int err = user_symbols_address(users, tgid, function, &out->address);
	struct proc_mapping mapping;
	ssize_t bytes;

	err = err ?: proc_mapping_at(tgid, out->address, &mapping);
	if (err)
		return err;
	out->file_offset = mapping.offset + (out->address - mapping.start);
	bytes = read_program(tgid, most, out);
	if (bytes < 0)
		return bytes;
	out->code_bytes = bytes;
	if (mapping.end - out->address < out->code_bytes)
		out->code_bytes = mapping.end - out->address;
	return out->code_bytes && same_in_memory(tgid, out) ? 0 : -ESTALE;
}

/*
 * The target is 32 bits (26 on arm64) of the instruction itself: other bytes that happen to be the same are as good as
 * impossible, and no instruction has to be decoded.
 */
#if defined(__x86_64__)
#define STEP 1

static bool calls(const __u8 *code, __u64 from, __u64 target)
{
	__s32 distance;

	memcpy(&distance, code + 1, sizeof(distance));
	return *code == 0xe8 && from + GO_CALL_BYTES + (__s64)distance == target;
}

/* The bytes of one instruction of the check. */
struct instruction {
	__u8 code[5];
	__u8 given; /* of code; the rest of length differs */
	__u8 length;
};

static size_t one_of(const __u8 *code, size_t bytes, const struct instruction *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].length <= bytes && !memcmp(code, list[i].code, list[i].given))
			return list[i].length;
	return 0;
}

size_t go_stack_check_bytes(const __u8 *code, size_t bytes)
{
	/* lea of %r12, where the function takes much; cmp of the goroutine's limit; jbe to the end of the function */
	static const struct instruction leas[] = {{{0x4c, 0x8d, 0x64, 0x24}, 4, 5}, {{0x4c, 0x8d, 0xa4, 0x24}, 4, 8}},
					compares[] = {{{0x49, 0x3b, 0x66, 0x10}, 4, 4},
						      {{0x4d, 0x3b, 0x66, 0x10}, 4, 4}},
					jumps[] = {{{0x76}, 1, 2}, {{0x0f, 0x86}, 2, 6}};
	const size_t lea = one_of(code, bytes, leas, 2);
	const size_t compare = one_of(code + lea, bytes - lea, compares, 2);
	const size_t jump = one_of(code + lea + compare, bytes - lea - compare, jumps, 2);

	return compare && jump ? lea + compare + jump : 0;
}
#else
#define STEP 4

static bool calls(const __u8 *code, __u64 from, __u64 target)
{
	__u32 instruction;

	memcpy(&instruction, code, sizeof(instruction));
	return instruction >> 26 == 0x25 && from + (__s64)((__s32)(instruction << 6) >> 6) * 4 == target;
}

size_t go_stack_check_bytes(const __u8 *code, size_t bytes)
{
	/* ldr x16, [x28, #16]; cmp sp, x16, or sub x17, sp, #n and cmp x17, x16; b.ls to the end of the function */
	static const struct {
		__u32 mask;
		__u32 instruction;
	} small[] = {{~0u, 0xf9400b90}, {~0u, 0xeb3063ff}, {0xff00001f, 0x54000009}},
	  large[] = {{~0u, 0xf9400b90}, {0xff8003ff, 0xd10003f1}, {~0u, 0xeb10023f}, {0xff00001f, 0x54000009}};
	__u32 instructions[4] = {0};
	bool is_small = true, is_large = true;

	memcpy(instructions, code, bytes < sizeof(instructions) ? bytes : sizeof(instructions));
	for (int i = 0; i < 3; i++)
		is_small = is_small && (instructions[i] & small[i].mask) == small[i].instruction;
	for (int i = 0; i < 4; i++)
		is_large = is_large && (instructions[i] & large[i].mask) == large[i].instruction;
	return is_small ? 12 : is_large ? 16 : 0;
}
#endif

long go_call_end(const __u8 *code, size_t bytes, __u64 from, __u64 target)
{
	for (size_t at = 0; at + GO_CALL_BYTES <= bytes; at += STEP)
		if (calls(code + at, from + at, target))
			return at + GO_CALL_BYTES;
	return -ENOENT;
}
