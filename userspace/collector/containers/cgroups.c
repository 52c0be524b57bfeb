// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "containers/cgroup_mounts.h"
#include "containers/cgroups.h"
#include "cli/message.h"
#include "names/btf_members.h"
#include "base/values.h"

/* Below a mount, with a leading "/" and no trailing one; "" names the mount itself. */
static int join(char out[PATH_MAX], const char *mount, const char *path)
{
	int length;

	path += strspn(path, "/");
	length = snprintf(out, PATH_MAX, "%s%s%s", mount, *path ? "/" : "", path);
	if (length >= PATH_MAX)
		return -ENAMETOOLONG;
	while (length > 1 && out[length - 1] == '/')
		out[--length] = 0;
	return 0;
}

/* The part of a resolved directory below the mount, "/" for the mount itself; NULL if it is elsewhere. */
static const char *below(const char *mount, const char *directory)
{
	size_t length = strlen(mount);

	if (strncmp(directory, mount, length) || (directory[length] && directory[length] != '/'))
		return NULL;
	return directory[length] ? directory + length : "/";
}

/* enum cgroup_subsys_id depends on what the kernel was built with. */
static int subsys_id(const struct types *types, const char *controller)
{
	char wanted[64];
	__s64 id;

	/* the block controller has kept its old name on v1 */
	snprintf(wanted, sizeof(wanted), "%s_cgrp_id", strcmp(controller, "blkio") ? controller : "io");
	return types && types_enumerator(types, "cgroup_subsys_id", wanted, &id) ? id : -ENOENT;
}

static int fill(struct cgroup_target *out, const struct cgroup_mount *mount, const struct types *types,
		const char *directory, const char *argument)
{
	char shown[VALUE_SHOWN];
	struct stat stat_of;

	if (stat(directory, &stat_of)) {
		int err = -errno;

		message("-G %s: %s", show(argument, shown), strerror(-err));
		return err;
	}
	if (!S_ISDIR(stat_of.st_mode)) {
		message("-G %s: not a directory", show(argument, shown));
		return -ENOTDIR;
	}
	out->v2 = mount->v2;
	out->id = stat_of.st_ino;
	out->subsys_id = CGROUP_HIERARCHY_V2;
	snprintf(out->path, sizeof(out->path), "%s", below(mount->directory, directory));
	snprintf(out->directory, sizeof(out->directory), "%s", directory);
	if (mount->v2)
		return 0;
	if (!mount->controller[0]) {
		message("-G %s: this v1 hierarchy has no controller, so it does not show which tasks are in it; use "
			"the same path of another hierarchy, as in memory:PATH",
			show(argument, shown));
		return -EINVAL;
	}
	out->subsys_id = subsys_id(types, mount->controller);
	if (out->subsys_id < 0) {
		message("-G %s: the kernel's BTF does not say which number this controller has: %s",
			show(argument, shown), mount->controller);
		return -EINVAL;
	}
	return 0;
}

static int resolve_absolute(const struct cgroup_mounts *mounts, const struct types *types, const char *argument,
			    struct cgroup_target *out)
{
	char directory[PATH_MAX], shown[VALUE_SHOWN];
	const struct cgroup_mount *best = NULL;

	if (!realpath(argument, directory)) {
		int err = -errno;

		message("-G %s: %s", show(argument, shown), strerror(-err));
		return err;
	}
	/* mounts nest: the longest one holds it */
	for (size_t i = 0; i < mounts->count; i++)
		if (below(mounts->mounts[i].directory, directory) &&
		    (!best || strlen(mounts->mounts[i].directory) > strlen(best->directory)))
			best = &mounts->mounts[i];
	if (!best) {
		message("-G %s: not below a cgroup mount; see `grep cgroup /proc/self/mounts`", show(argument, shown));
		return -EINVAL;
	}
	return fill(out, best, types, directory, argument);
}

static bool has_controller(const struct cgroup_mount *mount, const char *name, size_t length)
{
	const char *at = mount->controllers;

	while (*at) {
		size_t word = strcspn(at, ",");

		if (word == length && !strncmp(at, name, length))
			return true;
		at += word + (at[word] == ',');
	}
	return false;
}

static int resolve_relative(const struct cgroup_mounts *mounts, const struct types *types, const char *argument,
			    struct cgroup_target *out)
{
	const char *colon = strchr(argument, ':'), *path = argument;
	char joined[PATH_MAX], directory[PATH_MAX], shown[VALUE_SHOWN];
	size_t length = 0;

	/* "memory:docker/abc"; a colon that follows no controller's name belongs to the path */
	for (size_t i = 0; colon && i < mounts->count; i++)
		if (has_controller(&mounts->mounts[i], argument, colon - argument)) {
			length = colon - argument;
			path = colon + 1;
		}
	for (size_t i = 0; i < mounts->count; i++) {
		const struct cgroup_mount *mount = &mounts->mounts[i];

		if (length && !has_controller(mount, argument, length))
			continue;
		if (join(joined, mount->directory, path) || !realpath(joined, directory) ||
		    !below(mount->directory, directory))
			continue;
		return fill(out, mount, types, directory, argument);
	}
	message("-G %s: no such cgroup; give its path below a mount as in system.slice, or its directory",
		show(argument, shown));
	return -ENOENT;
}

int cgroup_resolve(const struct types *types, const char *argument, struct cgroup_target *out)
{
	struct cgroup_mounts mounts;
	int err = cgroup_mounts_read(&mounts);

	if (!err && !mounts.count)
		err = -ENOENT;
	if (err)
		message("-G: no cgroup hierarchy is mounted here; mount one, as in `mount -t cgroup2 none "
			"/sys/fs/cgroup`");
	else if (*argument == '/' && access(argument, F_OK) == 0)
		err = resolve_absolute(&mounts, types, argument, out);
	else
		err = resolve_relative(&mounts, types, argument, out);
	cgroup_mounts_free(&mounts);
	return err;
}

static bool is_divided(const char *directory)
{
	DIR *dir = opendir(directory);
	bool divided = false;
	struct dirent *entry;

	while (dir && !divided && (entry = readdir(dir)))
		divided = entry->d_type == DT_DIR && entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return divided;
}

int cgroup_hierarchy(const struct types *types)
{
	struct cgroup_mounts mounts;
	int found = CGROUP_HIERARCHY_V2;

	if (cgroup_mounts_read(&mounts))
		return CGROUP_HIERARCHY_V2;
	for (size_t i = 0; i < mounts.count; i++) { /* v2 comes first */
		int id;

		if (!is_divided(mounts.mounts[i].directory))
			continue;
		if (mounts.mounts[i].v2)
			break;
		if (!mounts.mounts[i].controller[0])
			continue;
		id = subsys_id(types, mounts.mounts[i].controller);
		if (id >= 0) {
			found = id;
			break;
		}
	}
	cgroup_mounts_free(&mounts);
	return found;
}

int cgroup_mount_of(const struct types *types, int subsys, char directory[PATH_MAX])
{
	struct cgroup_mounts mounts;
	int err = cgroup_mounts_read(&mounts);

	if (err)
		return err;
	err = -ENOENT;
	for (size_t i = 0; err && i < mounts.count; i++) {
		const struct cgroup_mount *mount = &mounts.mounts[i];

		if (mount->v2 ? subsys != CGROUP_HIERARCHY_V2
			      : !mount->controller[0] || subsys_id(types, mount->controller) != subsys)
			continue;
		snprintf(directory, PATH_MAX, "%s", mount->directory);
		err = 0;
	}
	cgroup_mounts_free(&mounts);
	return err;
}
