/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cgroups by path and by kernfs id, on v1, hybrid and v2 machines. */
#ifndef LOCKLINE_CGROUPS_H
#define LOCKLINE_CGROUPS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#define CGROUP_HIERARCHY_V2 (-1)

/* The kernel's, which tell the numbers of v1's controllers; NULL: it has none to tell. */
struct types;

/* What the programs compare: the cgroup itself and all below it. */
struct cgroup_target {
	bool v2;             /* task->cgroups->dfl_cgrp; else task->cgroups->subsys[subsys_id]->cgroup */
	int subsys_id;       /* v1: enum cgroup_subsys_id of the running kernel; v2: CGROUP_HIERARCHY_V2 */
	__u64 id;            /* kernfs id: inode number of the directory, unique in its hierarchy */
	char path[PATH_MAX]; /* below the mount: "/", "/system.slice/a.service" */
	char directory[PATH_MAX];
};

/*
 * argument: an absolute directory below a cgroup mount; a path in a hierarchy
 * ("system.slice"), looked for in v2 first, then in each v1 controller; or one
 * in the hierarchy of one v1 controller ("memory:docker/abc").  On refusal one
 * line on stderr says why: -ENOENT, -EINVAL (not a cgroup's directory, or a v1
 * hierarchy without a controller), or what the kernel said.
 */
int cgroup_resolve(const struct types *types, const char *argument, struct cgroup_target *out);

/*
 * The hierarchy that tells waiters apart when no -G chooses one: v2 if it is
 * mounted and divided, else the first v1 controller's that is divided; in
 * doubt v2.  A subsys_id or CGROUP_HIERARCHY_V2.
 */
int cgroup_hierarchy(const struct types *types);

/* id -> path in one hierarchy; bounded memory. */
struct cgroup_paths;

int cgroup_paths_open(struct cgroup_paths **out, const struct types *types, int subsys_id);
void cgroup_paths_close(struct cgroup_paths *paths);
/* "" if it is gone or was never to be seen; valid until the next call. */
const char *cgroup_path(struct cgroup_paths *paths, __u64 id);
size_t cgroup_paths_bytes(const struct cgroup_paths *paths);

#endif /* LOCKLINE_CGROUPS_H */
