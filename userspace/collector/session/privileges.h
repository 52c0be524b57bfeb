/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recording gives up once its programs are attached. */
#ifndef LOCKLINE_PRIVILEGES_H
#define LOCKLINE_PRIVILEGES_H

#include <stddef.h>

struct options;

/*
 * Drops the capabilities that no mode needs from here on, and the ways to get
 * new ones; nobody may trace the process any more.  COMMAND, which was forked
 * before, keeps its own.  out: what was kept, or why all was, for the recording.
 */
void privileges_drop(const struct options *options, char *out, size_t size);

/* What a recording with these options would keep of what the process has. */
void privileges_expected(const struct options *options, char *out, size_t size);

#endif /* LOCKLINE_PRIVILEGES_H */
