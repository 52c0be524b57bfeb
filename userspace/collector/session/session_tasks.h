/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes and threads that a recording is of: whether they can be had, and whether they are still there. */
#ifndef LOCKLINE_SESSION_TASKS_H
#define LOCKLINE_SESSION_TASKS_H

#include "cli/options.h"

/* Both say what is wrong. */
int session_check_namespace(const struct options *options);
int session_check_processes(const struct options *options);
/* True if none of those that were asked for is left. */
bool session_processes_gone(const struct options *options);
/* --end-with: has SIGTERM sent when that process ends.  Says what is wrong. */
int session_end_with(const struct options *options);

#endif /* LOCKLINE_SESSION_TASKS_H */
