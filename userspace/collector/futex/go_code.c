// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/patience.h"
#include "base/proc.h"
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
#else
#define STEP 4

static bool calls(const __u8 *code, __u64 from, __u64 target)
{
	__u32 instruction;

	memcpy(&instruction, code, sizeof(instruction));
	return instruction >> 26 == 0x25 && from + (__s64)((__s32)(instruction << 6) >> 6) * 4 == target;
}
#endif

long go_call_end(const __u8 *code, size_t bytes, __u64 from, __u64 target)
{
	for (size_t at = 0; at + GO_CALL_BYTES <= bytes; at += STEP)
		if (calls(code + at, from + at, target))
			return at + GO_CALL_BYTES;
	return -ENOENT;
}
