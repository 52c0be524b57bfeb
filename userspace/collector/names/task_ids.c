// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "names/lock_types.h"
#include "names/task_ids.h"

static int read_id(const struct lock_names *names, __u32 type, __u64 task, const char *member, __u32 *out)
{
	__u32 offset, member_type;

	if (!types_member(names->types, type, member, &offset, &member_type))
		return -ENOENT;
	return resolver_read(&names->resolver, task + offset, out, sizeof(*out));
}

int lock_names_task(const struct lock_names *names, __u64 task, __u32 *tid, __u32 *tgid)
{
	__u32 type = names->types ? types_struct(names->types, "task_struct") : 0;
	int err = type ? read_id(names, type, task, "pid", tid) : -ENOENT;

	return err ?: read_id(names, type, task, "tgid", tgid);
}
