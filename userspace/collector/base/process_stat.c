// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process_stat.h"

/* Fields as proc(5) counts them. */
#define FIELD_THREADS 20
#define FIELD_START   22

int process_stat_parse(const char *text, struct process_stat *out)
{
	/* The command may hold spaces and brackets; what follows holds none. */
	const char *p = strrchr(text, ')'), *digits;
	unsigned long long threads = 0;
	char state, *end;

	*out = (struct process_stat){};
	if (!p || p[1] != ' ' || !p[2])
		return -EINVAL;
	state = p[2];
	for (int field = 2; field < FIELD_START; field++) {
		if (field == FIELD_THREADS)
			threads = strtoull(p, NULL, 10);
		p = strchr(p + 1, ' ');
		if (!p)
			return -EINVAL;
	}
	digits = p + 1;
	out->start_time = strtoull(digits, &end, 10);
	out->ended = strchr("ZXx", state) && threads <= 1;
	return end == digits ? -EINVAL : 0;
}

int process_stat_read(__u32 id, struct process_stat *out)
{
	char path[40], text[1024];
	ssize_t length;
	int fd, err;

	*out = (struct process_stat){};
	snprintf(path, sizeof(path), "/proc/%u/stat", id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, sizeof(text) - 1);
	err = length < 0 ? -errno : 0;
	close(fd);
	if (err)
		return err;
	text[length] = 0;
	return process_stat_parse(text, out);
}
