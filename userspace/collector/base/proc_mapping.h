/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One mapping of a process.  It is read by who may be left alone: see base/patience.h. */
#ifndef LOCKLINE_PROC_MAPPING_H
#define LOCKLINE_PROC_MAPPING_H

#include <stdbool.h>
#include <linux/types.h>

#include "base/proc.h"

struct proc_mapping {
	__u64 start;
	__u64 end;
	__u64 offset; /* in its file */
	__u64 inode;  /* 0: no file */
	__u32 major;
	__u32 minor;
	bool shared;                 /* its writes are others' too */
	char path[PROC_MAPPED_PATH]; /* as in /proc/PID/maps; "" if it has none */
};

/* The mapping of the process that holds address; -ENOENT if there is none. */
int proc_mapping_at(__u32 tgid, __u64 address, struct proc_mapping *out);
/* Whether the process can write what this mapping of another one shows: the same file, or shared memory, of both. */
bool proc_shares_memory_of(__u32 tgid, const struct proc_mapping *mapping);

#endif /* LOCKLINE_PROC_MAPPING_H */
