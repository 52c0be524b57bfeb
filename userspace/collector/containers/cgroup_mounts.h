/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The cgroup hierarchies of /proc/self/mountinfo: v2 first, then v1 in the order of mounting. */
#ifndef LOCKLINE_CGROUP_MOUNTS_H
#define LOCKLINE_CGROUP_MOUNTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct types;

struct cgroup_mount {
	bool v2;
	char controller[32];   /* v1: one of its controllers; "" if it has none (name=systemd) */
	char controllers[128]; /* v1: all of them, with commas */
	char directory[PATH_MAX];
};

struct cgroup_mounts {
	struct cgroup_mount *mounts;
	size_t count;
};

/* 0 or -ENOMEM or why /proc/self/mountinfo cannot be read; to be freed also if nothing was found. */
int cgroup_mounts_read(struct cgroup_mounts *out);
int cgroup_mounts_parse(struct cgroup_mounts *out, FILE *mountinfo);
void cgroup_mounts_free(struct cgroup_mounts *mounts);

/* Mount point of a hierarchy by subsys_id or CGROUP_HIERARCHY_V2; -ENOENT if it is not mounted. */
int cgroup_mount_of(const struct types *types, int subsys_id, char directory[PATH_MAX]);

#endif /* LOCKLINE_CGROUP_MOUNTS_H */
