/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tells a process, or a thread, from one that had its id before. */
#ifndef LOCKLINE_PROCESS_STAT_H
#define LOCKLINE_PROCESS_STAT_H

#include <stdbool.h>
#include <linux/types.h>

struct process_stat {
	__u64 start_time; /* clock ticks since boot */
	bool ended;       /* a zombie without other threads: its memory is gone */
};

/* text: of /proc/ID/stat; -EINVAL. */
int process_stat_parse(const char *text, struct process_stat *out);
/* -ENOENT or -ESRCH: there is none. */
int process_stat_read(__u32 id, struct process_stat *out);

#endif /* LOCKLINE_PROCESS_STAT_H */
