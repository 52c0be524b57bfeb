/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Live tasks, as /proc has them. */
#ifndef LOCKLINE_TASKS_H
#define LOCKLINE_TASKS_H

#include <stdbool.h>
#include <linux/types.h>

/* Whether a process or thread has ended; a zombie has. */
bool task_gone(__u32 id);
/* R, S, D, T...; 0: it is gone. */
char task_state(__u32 id);
/* The process that a thread belongs to; negative errno if it is gone. */
int task_leader(__u32 id, __u32 *tgid);

#endif /* LOCKLINE_TASKS_H */
