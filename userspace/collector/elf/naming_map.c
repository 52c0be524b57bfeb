// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sorted.h"
#include "elf/naming_map.h"

/* With what it is parsed into, less than lets the helper close other files. */
#define MOST_BYTES (32u << 20)
#define MOST_CODE  (1u << 19)
/* Places that overlap: so many are looked at. */
#define MOST_BEFORE 64

struct code {
	__u64 start, size;
	__u32 name; /* in the text */
};

struct naming_map {
	char *text;
	struct code *code; /* by start; of the same start, the one that was written last behind the others */
	__u32 count;
};

static size_t read_text(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while (length < size && (got = read(fd, text + length, size - length)) > 0)
		length += got;
	return length;
}

static __u32 count_lines(const char *text)
{
	__u32 count = 0;

	while ((text = strchr(text, '\n'))) {
		count++;
		text++;
	}
	return count;
}

/* The last line may be half written: only whole ones are read. */
static void read_lines(struct naming_map *map, char *line, __u32 most)
{
	char *end;

	while (map->count < most && (end = strchr(line, '\n'))) {
		struct code *code = &map->code[map->count];
		char *next;

		*end = 0;
		code->start = strtoull(line, &next, 16);
		if (next > line && *next == ' ') {
			line = next;
			code->size = strtoull(line, &next, 16);
			code->name = next + 1 - map->text;
			map->count += next > line && *next == ' ' && next[1];
		}
		line = end + 1;
	}
}

static int by_start(const void *a, const void *b)
{
	const struct code *one = a, *other = b;

	if (one->start != other->start)
		return one->start < other->start ? -1 : 1;
	/* The text is in the order in which it was written. */
	return one->name < other->name ? -1 : one->name > other->name;
}

/* The last lines, which are of the code that was made last.  cut: what was read begins within a line. */
static void parse(struct naming_map *map, bool cut)
{
	char *line = cut ? strchr(map->text, '\n') : map->text;
	__u32 lines = line ? count_lines(line) : 0;

	for (; lines > MOST_CODE; lines--)
		line = strchr(line, '\n') + 1;
	map->code = lines ? malloc(lines * sizeof(*map->code)) : NULL;
	if (map->code)
		read_lines(map, line, lines);
}

struct naming_map *naming_map_open(int fd)
{
	struct naming_map *map = calloc(1, sizeof(*map));
	const off_t size = lseek(fd, 0, SEEK_END), most = size < MOST_BYTES ? size : MOST_BYTES;

	if (map && most > 0 && lseek(fd, size - most, SEEK_SET) >= 0)
		map->text = malloc(most + 1);
	if (map && map->text) {
		map->text[read_text(fd, map->text, most)] = 0;
		parse(map, most < size);
	}
	close(fd);
	if (!map || !map->count) {
		naming_map_close(map);
		return NULL;
	}
	qsort(map->code, map->count, sizeof(*map->code), by_start);
	return map;
}

void naming_map_close(struct naming_map *map)
{
	if (!map)
		return;
	free(map->text);
	free(map->code);
	free(map);
}

const char *naming_map_find(const struct naming_map *map, __u64 address, __u64 *offset)
{
	const struct code *found = NULL;
	const __u32 upto = SORTED_UPTO(map->code, map->count, start, address);

	for (__u32 i = upto; i > 0 && upto - i < MOST_BEFORE; i--) {
		const struct code *code = &map->code[i - 1];

		if (address - code->start < code->size && (!found || code->name > found->name))
			found = code;
	}
	if (!found)
		return NULL;
	*offset = address - found->start;
	return map->text + found->name;
}
