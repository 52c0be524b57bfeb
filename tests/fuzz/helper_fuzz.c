// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes as a file of another process: as an object, and as a map of code that was made at run time.  Opened and
 * asked as the naming helper does, and a stack unwound by its frame tables.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper/naming_objects.h"

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

static int file_of(const __u8 *data, size_t size)
{
	int fd = memfd_create("object", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

static void check_text(const struct naming_answer *answer)
{
	if (!memchr(answer->name, 0, sizeof(answer->name)))
		abort();
}

static void ask(__u64 file_offset, __u64 distance)
{
	const struct naming_place place = {.file_offset = file_offset, .distance = distance};
	struct naming_answer answer = {};

	naming_object_symbol(0, &place, &answer);
	check_text(&answer);
	for (int variable = 0; variable < 2; variable++) {
		memset(&answer, 0, sizeof(answer));
		naming_object_at(0, file_offset + distance, variable, &answer);
		check_text(&answer);
	}
}

static void unwind(__u64 file_offset, __u64 distance)
{
	static struct naming_stack stack;
	static struct naming_frames frames;

	memset(&stack, 0x41, sizeof(stack.bytes));
	stack.state = (struct unwind_state){.pc = 0x1000 + distance, .known = ~0ull};
	for (int i = 0; i < UNWIND_REGISTERS; i++)
		stack.state.registers[i] = 0x7f0000;
	stack.start = 0x1000;
	stack.end = 0x100000;
	stack.file_offset = file_offset;
	stack.address = 0x7f0000;
	stack.size = sizeof(stack.bytes);
	stack.most = NAMING_FRAMES + 1;
	stack.leaf = distance & 1;
	naming_object_unwind(0, &stack, &frames);
	if (frames.count > NAMING_FRAMES)
		abort();
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	static const __u64 distances[] = {0, 1, 0x10, 0x40, 0x123, 0x1000, 0x1010, 0x1130, 0x2000, 1ull << 63, ~0ull};
	struct naming_answer answer = {};

	if (!naming_object_open_map(0, file_of(data, size)))
		for (size_t i = 0; i < sizeof(distances) / sizeof(*distances); i++)
			ask(0, distances[i]);
	if (!naming_object_open(0, file_of(data, size), &answer)) {
		/* Its own debug file, too. */
		naming_object_debug(0, file_of(data, size));
		naming_object_find(0, 0, "main", &answer);
		naming_object_find(0, 0x1000, "main.main", &answer);
		for (size_t i = 0; i < sizeof(distances) / sizeof(*distances); i++) {
			ask(0, distances[i]);
			ask(0x1000, distances[i]);
			unwind(0, distances[i]);
			unwind(0x1000, distances[i]);
		}
	}
	naming_object_close(0);
	return 0;
}
