// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/message.h"
#include "perfdata/perfdata_format.h"
#include "perfdata/perfdata_input.h"

int perfdata_input_open(struct perfdata_input *input, const char *path)
{
	bool standard = !strcmp(path, "-");
	struct stat status;

	*input = (struct perfdata_input){.fd = -1, .limit = ~0ull};
	/* The user's own file: of a named pipe it waits for the writer, as cat does. */
	input->fd = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (input->fd < 0 || fstat(input->fd, &status)) {
		int err = -errno;

		message("cannot read %s: %s", path, strerror(-err));
		perfdata_input_close(input);
		return err;
	}
	if (S_ISDIR(status.st_mode)) {
		perfdata_input_close(input);
		return -EISDIR;
	}
	input->seekable = S_ISREG(status.st_mode);
	if (input->seekable) {
		input->size = status.st_size;
		if (standard && lseek(input->fd, 0, SEEK_CUR) > 0)
			lseek(input->fd, 0, SEEK_SET);
	}
	input->buffer = malloc(PERFDATA_BUFFER);
	if (!input->buffer) {
		perfdata_input_close(input);
		return -ENOMEM;
	}
	return 0;
}

void perfdata_input_close(struct perfdata_input *input)
{
	if (input->fd >= 0)
		close(input->fd);
	free(input->buffer);
	input->fd = -1;
	input->buffer = NULL;
}

const __u8 *perfdata_input_read(struct perfdata_input *input, size_t size)
{
	if (input->limit - input->offset < size)
		return NULL;
	memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
	input->end -= input->begin;
	input->begin = 0;
	while (input->end < size) {
		ssize_t got = read(input->fd, input->buffer + input->end, PERFDATA_BUFFER - input->end);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			input->error = errno;
		if (got <= 0)
			return NULL;
		input->end += got;
	}
	return input->buffer;
}

void perfdata_input_skip_more(struct perfdata_input *input, __u64 size)
{
	__u64 held = input->end - input->begin;

	if (size > input->limit - input->offset)
		size = input->limit - input->offset;
	if (size <= held) {
		input->begin += size;
		input->offset += size;
		return;
	}
	if (input->seekable) {
		perfdata_input_seek(input, input->offset + size);
		return;
	}
	while (size) {
		size_t step = size < PERFDATA_RECORD_MAX ? size : PERFDATA_RECORD_MAX;

		if (!perfdata_input_peek(input, step)) {
			/* It ended: nothing is left. */
			input->offset += input->end - input->begin;
			input->begin = input->end;
			return;
		}
		input->begin += step;
		input->offset += step;
		size -= step;
	}
}

int perfdata_input_seek(struct perfdata_input *input, __u64 offset)
{
	/* Behind the end is the end; lseek() refuses what is no off_t. */
	if (offset > input->size)
		offset = input->size;
	if (lseek(input->fd, offset, SEEK_SET) < 0) {
		input->error = errno;
		return -errno;
	}
	input->offset = offset;
	input->begin = input->end = 0;
	return 0;
}

int perfdata_input_part(const struct perfdata_input *input, __u64 offset, __u64 size, __u8 *out, __u64 *got)
{
	*got = 0;
	if (offset >= input->size)
		return 0;
	while (*got < size) {
		ssize_t count = pread(input->fd, out + *got, size - *got, offset + *got);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (!count)
			break;
		*got += count;
	}
	return 0;
}
