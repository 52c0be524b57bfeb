// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * id -> path.  With the right to open by handle (CAP_DAC_READ_SEARCH) the
 * kernel finds the directory by its number; without it the tree is walked.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "containers/cgroup_mounts.h"
#include "containers/cgroups.h"

#define SLOTS         8192 /* power of two */
#define MOST_PATHS    (SLOTS / 2)
#define MOST_BYTES    (4u << 20)
#define WALK_EVERY_NS 1000000000ull
#define MOST_WALKED   65536
#define MOST_DEPTH    32
#define ROOT_ID       1    /* kernfs id of a hierarchy's root */
#define FILEID_KERNFS 0xfe /* linux/exportfs.h: the handle is the kernfs id */

struct slot {
	__u64 id; /* 0: free; no cgroup has it */
	char *path;
};

struct cgroup_paths {
	int mount_fd; /* -1: this hierarchy is not mounted, only its root is known */
	size_t mount_length;
	bool by_handle;
	__u64 walked_ns;
	size_t count;
	size_t bytes; /* of the paths */
	char mount[PATH_MAX];
	struct slot slots[SLOTS];
};

static struct slot *slot_of(struct cgroup_paths *paths, __u64 id)
{
	size_t at = (id * 0x9e3779b97f4a7c15ull) >> 40;

	while (paths->slots[at & (SLOTS - 1)].id && paths->slots[at & (SLOTS - 1)].id != id)
		at++;
	return &paths->slots[at & (SLOTS - 1)];
}

static void forget_all(struct cgroup_paths *paths)
{
	for (size_t i = 0; i < SLOTS; i++)
		free(paths->slots[i].path);
	memset(paths->slots, 0, sizeof(paths->slots));
	paths->count = paths->bytes = 0;
}

/* When the bound is reached everything goes: what is still in use comes back by itself. */
static const char *remember(struct cgroup_paths *paths, __u64 id, const char *path)
{
	size_t size = strlen(path) + 1;
	struct slot *slot = slot_of(paths, id);

	if (!slot->id && (paths->count == MOST_PATHS || paths->bytes + size > MOST_BYTES)) {
		forget_all(paths);
		slot = slot_of(paths, id);
	}
	if (slot->id)
		return slot->path;
	slot->path = strdup(path);
	if (!slot->path)
		return "";
	slot->id = id;
	paths->count++;
	paths->bytes += size;
	return slot->path;
}

/* 0, -ESTALE if the cgroup is gone, or why handles cannot be opened here. */
static int path_by_handle(struct cgroup_paths *paths, __u64 id, char out[PATH_MAX])
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + sizeof(id)];
	} u = {.handle = {.handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS}};
	char link[64], directory[PATH_MAX];
	ssize_t length;
	int fd, err = 0;

	memcpy(u.handle.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(paths->mount_fd, &u.handle, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, directory, sizeof(directory) - 1);
	if (length < 0)
		err = -errno;
	close(fd);
	if (err)
		return err;
	directory[length] = 0;
	/* outside of this mount (a bind mount of a part of the tree): known, but without a path here */
	if (strncmp(directory, paths->mount, paths->mount_length))
		return -ESTALE;
	snprintf(out, PATH_MAX, "%s", directory[paths->mount_length] ? directory + paths->mount_length : "/");
	return 0;
}

struct walk {
	struct cgroup_paths *paths;
	__u64 wanted;
	size_t seen;
	char found[PATH_MAX]; /* "" until then */
	char path[PATH_MAX];  /* of the directory that is being read, below the mount */
};

/* Takes the directory's fd.  Other cgroups on the way are remembered as long as there is room. */
static void walk_directory(struct walk *walk, int fd, int depth)
{
	size_t length = strlen(walk->path);
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close(fd);
		return;
	}
	while (!walk->found[0] && walk->seen < MOST_WALKED && (entry = readdir(dir))) {
		int below;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
		    length + 1 + strlen(entry->d_name) >= sizeof(walk->path))
			continue;
		walk->seen++;
		sprintf(walk->path + length, "/%s", entry->d_name);
		if (entry->d_ino == walk->wanted)
			strcpy(walk->found, walk->path);
		else if (walk->paths->count < MOST_PATHS / 2)
			remember(walk->paths, entry->d_ino, walk->path);
		if (depth < MOST_DEPTH && !walk->found[0]) {
			below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (below >= 0)
				walk_directory(walk, below, depth + 1);
		}
		walk->path[length] = 0;
	}
	closedir(dir);
}

static int path_by_walk(struct cgroup_paths *paths, __u64 id, char out[PATH_MAX])
{
	struct walk walk = {.paths = paths, .wanted = id};
	__u64 now = now_ns();
	int fd;

	if (paths->walked_ns && now - paths->walked_ns < WALK_EVERY_NS)
		return -EAGAIN;
	paths->walked_ns = now;
	fd = openat(paths->mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	walk_directory(&walk, fd, 0);
	if (!walk.found[0])
		return -ESTALE;
	strcpy(out, walk.found);
	return 0;
}

const char *cgroup_path(struct cgroup_paths *paths, __u64 id)
{
	const struct slot *slot = slot_of(paths, id);
	char path[PATH_MAX];
	int err = -EPERM;

	if (slot->id)
		return slot->path;
	if (paths->mount_fd < 0 || !id)
		return "";
	if (paths->by_handle) {
		err = path_by_handle(paths, id, path);
		/* refused, or a kernel without handles for cgroups: never ask again */
		if (err && err != -ESTALE)
			paths->by_handle = false;
	}
	if (!paths->by_handle)
		err = path_by_walk(paths, id, path);
	if (err == -ESTALE) /* ids are not used twice: gone is gone */
		return remember(paths, id, "");
	return err ? "" : remember(paths, id, path);
}

int cgroup_paths_open(struct cgroup_paths **out, const struct types *types, int subsys_id)
{
	struct cgroup_paths *paths = calloc(1, sizeof(*paths));
	struct stat root;

	*out = NULL;
	if (!paths)
		return -ENOMEM;
	paths->by_handle = true;
	paths->mount_fd = -1;
	if (!cgroup_mount_of(types, subsys_id, paths->mount))
		paths->mount_fd = open(paths->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	paths->mount_length = strlen(paths->mount);
	if (paths->mount_fd < 0)
		remember(paths, ROOT_ID, "/");
	else if (!fstat(paths->mount_fd, &root))
		remember(paths, root.st_ino, "/");
	*out = paths;
	return 0;
}

void cgroup_paths_close(struct cgroup_paths *paths)
{
	if (!paths)
		return;
	forget_all(paths);
	if (paths->mount_fd >= 0)
		close(paths->mount_fd);
	free(paths);
}

size_t cgroup_paths_bytes(const struct cgroup_paths *paths)
{
	return sizeof(*paths) + paths->bytes;
}
