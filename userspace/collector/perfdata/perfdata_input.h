/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of a perf.data file or pipe, read once from front to back through
 * one buffer, so that the size of a file is no matter of memory and a file that
 * shrinks meanwhile no signal.
 */
#ifndef LOCKLINE_PERFDATA_INPUT_H
#define LOCKLINE_PERFDATA_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#define PERFDATA_BUFFER (1u << 18)

struct perfdata_input {
	int fd;
	bool seekable;
	int error;    /* errno of a failed read; 0: none, or the end */
	__u64 size;   /* of the file; 0 if it is none */
	__u64 offset; /* in the file, of buffer[begin] */
	__u64 limit;  /* what is read ends here; ~0: at the end of the file */
	__u8 *buffer;
	size_t begin;
	size_t end;
};

/* path "-": standard input.  Tells the user why not. */
int perfdata_input_open(struct perfdata_input *input, const char *path);
void perfdata_input_close(struct perfdata_input *input);
/* As perfdata_input_peek() and perfdata_input_skip(), of what is not in the buffer. */
const __u8 *perfdata_input_read(struct perfdata_input *input, size_t size);
void perfdata_input_skip_more(struct perfdata_input *input, __u64 size);

/* The next size bytes (at most PERFDATA_RECORD_MAX), without moving on; NULL: the input ends before. */
static inline const __u8 *perfdata_input_peek(struct perfdata_input *input, size_t size)
{
	if (input->end - input->begin >= size && input->limit - input->offset >= size)
		return input->buffer + input->begin;
	return perfdata_input_read(input, size);
}

static inline void perfdata_input_skip(struct perfdata_input *input, __u64 size)
{
	if (input->end - input->begin < size || input->limit - input->offset < size) {
		perfdata_input_skip_more(input, size);
		return;
	}
	input->begin += size;
	input->offset += size;
}

/* Goes on at another place; seekable inputs alone. */
int perfdata_input_seek(struct perfdata_input *input, __u64 offset);
/* A copy of another part of a seekable input, *got bytes of it: fewer if the file ends before. */
int perfdata_input_part(const struct perfdata_input *input, __u64 offset, __u64 size, __u8 *out, __u64 *got);

#endif /* LOCKLINE_PERFDATA_INPUT_H */
