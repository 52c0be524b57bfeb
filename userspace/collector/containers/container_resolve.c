// SPDX-License-Identifier: GPL-2.0-or-later
/* --container and --pod: the cgroup of that name, found by walking the hierarchy. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/values.h"
#include "cli/message.h"
#include "containers/cgroup_mounts.h"
#include "containers/containers.h"

#define MOST_WALKED 65536
#define MOST_DEPTH  32
#define SHORTEST_ID 12

struct search {
	struct containers *containers;
	const char *name; /* NULL: any container */
	const char *pod;  /* "NAMESPACE/NAME", NULL: any */
	size_t seen;
	size_t found;
	char path[PATH_MAX]; /* of the directory that is being read, below the mount */
	char first[PATH_MAX], second[PATH_MAX];
};

static bool is_pod(const struct container *is, const char *pod)
{
	size_t length = strlen(is->space);

	return length && is->pod[0] && !strncmp(pod, is->space, length) && pod[length] == '/' &&
	       !strcmp(pod + length + 1, is->pod);
}

static bool matches(const struct search *search, const struct container *is)
{
	size_t length;

	if (search->pod && !is_pod(is, search->pod))
		return false;
	if (!search->name)
		return true;
	length = strlen(search->name);
	return (is->name[0] && !strcmp(is->name, search->name)) ||
	       (length >= SHORTEST_ID && length <= CONTAINER_ID && !strncmp(is->id, search->name, length));
}

static void walk(struct search *search, int fd, int depth);

/* Of a pod whose own cgroup has no name here, the cgroup around its containers. */
static void take_match(struct search *search, const struct container *is)
{
	char path[PATH_MAX], *slash;
	struct container around;

	strcpy(path, search->path);
	slash = strrchr(path, '/');
	if (!search->name && is->id[0] && slash) {
		*slash = 0;
		container_of_path(path, &around);
		if (around.id[0] || strcmp(around.pod_uid, is->pod_uid) != 0)
			*slash = '/';
	}
	if (!search->found) {
		strcpy(search->first, path);
		search->found = 1;
	} else if (strcmp(search->first, path) != 0) {
		strcpy(search->second, path);
		search->found = 2;
	}
}

/* A cgroup that matches is not entered: what is below it belongs to it. */
static void meet(struct search *search, DIR *dir, const char *name, int depth)
{
	struct container is;
	int below;

	container_find(search->containers, search->path, &is);
	if (matches(search, &is)) {
		take_match(search, &is);
		return;
	}
	if (depth == MOST_DEPTH)
		return;
	below = openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below >= 0)
		walk(search, below, depth + 1);
}

/* Takes the directory's fd. */
static void walk(struct search *search, int fd, int depth)
{
	size_t length = strlen(search->path);
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close(fd);
		return;
	}
	while (search->found < 2 && search->seen < MOST_WALKED && (entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
		    length + 1 + strlen(entry->d_name) >= sizeof(search->path))
			continue;
		search->seen++;
		sprintf(search->path + length, "/%s", entry->d_name);
		meet(search, dir, entry->d_name, depth);
		search->path[length] = 0;
	}
	closedir(dir);
}

static void search_mounts(struct search *search, const struct cgroup_mounts *mounts, char directory[PATH_MAX])
{
	/* v2 comes first; on a machine with both, the containers are in each */
	for (size_t i = 0; i < mounts->count && !search->found; i++) {
		const struct cgroup_mount *mount = &mounts->mounts[i];
		int fd;

		if (!mount->v2 && !mount->controller[0])
			continue;
		fd = open(mount->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		search->path[0] = 0;
		walk(search, fd, 0);
		if (search->found && snprintf(directory, PATH_MAX, "%s%s", mount->directory, search->first) >= PATH_MAX)
			search->found = 0;
	}
}

int container_resolve(const char *name, const char *pod, char directory[PATH_MAX])
{
	struct search *search = calloc(1, sizeof(*search));
	struct cgroup_mounts mounts = {};
	char shown[VALUE_SHOWN];
	const char *option = name ? "--container" : "--pod", *wanted = name ?: pod;
	int err = search ? cgroup_mounts_read(&mounts) : -ENOMEM;

	err = err ?: containers_open(&search->containers, "/");
	if (err) {
		message("%s: %s", option, strerror(-err));
		goto out;
	}
	search->name = name;
	search->pod = pod;
	search_mounts(search, &mounts, directory);
	if (!search->found) {
		err = -ENOENT;
		message("%s %s: no cgroup of that name%s", option, show(wanted, shown),
			name ? "; give a name, or 12 digits of an id or more" : "; does the pod run on this node?");
	} else if (search->found > 1) {
		err = -ENOTUNIQ;
		message("%s %s: several have that name: %s and %s; name one with %s", option, show(wanted, shown),
			on_a_line(search->first), on_a_line(search->second),
			name && !pod ? "an id, --pod, or -G" : "-G");
	}
out:
	if (search)
		containers_close(search->containers);
	cgroup_mounts_free(&mounts);
	free(search);
	return err;
}
