/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cgroups by path and by kernfs id, on v1, hybrid and v2 machines. */
#ifndef LOCKLINE_CGROUPS_H
#define LOCKLINE_CGROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <limits.h>
#include <linux/types.h>

/* What a program compares: the cgroup itself and all below it. */
struct cgroup_target {
	bool v2;             /* task->cgroups->dfl_cgrp; else task->cgroups->subsys[subsys_id]->cgroup */
	int subsys_id;       /* v1: enum cgroup_subsys_id of the running kernel; -1 with v2 */
	int level;           /* 0: the root of the hierarchy; index into cgroup.ancestors */
	__u64 id;            /* kernfs id: inode number of the directory, unique in its hierarchy */
	char path[PATH_MAX]; /* in the hierarchy: "/", "/system.slice/a.service" */
};

/*
 * argument: an absolute directory, or a path in a hierarchy ("system.slice",
 * "memory:docker/abc" for one v1 controller); a relative one is looked for in
 * cgroup v2 first, then in each v1 controller.  On refusal one line on stderr
 * says why: -ENOENT, -ENOTDIR, -EINVAL (no cgroup directory, or a v1 hierarchy
 * without controller), -EOPNOTSUPP (inside a cgroup namespace, where the level is hidden).
 */
int cgroup_resolve(const char *argument, struct cgroup_target *out);

/* id -> path in the v2 hierarchy, which is what bpf_get_current_cgroup_id() means. */
struct cgroup_paths;

int cgroup_paths_open(struct cgroup_paths **out);
void cgroup_paths_close(struct cgroup_paths *paths);
/* "" if it is gone or was never to be seen; valid until the next call. */
const char *cgroup_path(struct cgroup_paths *paths, __u64 id);
size_t cgroup_paths_bytes(const struct cgroup_paths *paths);

#endif /* LOCKLINE_CGROUPS_H */
