/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tasks of the kernel by their addresses. */
#ifndef LOCKLINE_TASK_IDS_H
#define LOCKLINE_TASK_IDS_H

#include <linux/types.h>

struct lock_names;

/* The ids of a live task by the address of its task_struct. */
int lock_names_task(const struct lock_names *names, __u64 task, __u32 *tid, __u32 *tgid);

#endif /* LOCKLINE_TASK_IDS_H */
