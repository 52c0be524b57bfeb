// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <linux/openat2.h>

#include "base/proc.h"
#include "base/regular_file.h"

/* Opening a device may have any effect, and so may have opening a FIFO: neither is opened to look what it is. */
static int open_found(int found, struct stat *status)
{
	struct stat own;
	char path[64];
	int fd;

	if (fstat(found, &own))
		return -errno;
	if (!S_ISREG(own.st_mode))
		return -ENXIO;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	/* O_NONBLOCK: not even for a process that holds a lease on it. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (status)
		*status = own;
	return fd;
}

int regular_file_open_at(int directory, const char *path, enum regular_link link, struct stat *status)
{
	int found = openat(directory, path, O_PATH | O_CLOEXEC | (link == LINK_REFUSED ? O_NOFOLLOW : 0));
	struct stat own;
	int fd;

	if (found < 0)
		return -errno;
	/* With O_PATH a link is opened rather than refused. */
	if (link == LINK_REFUSED && !fstat(found, &own) && S_ISLNK(own.st_mode))
		fd = -ELOOP;
	else
		fd = open_found(found, status);
	close(found);
	return fd;
}

int regular_file_open(const char *path, enum regular_link link, struct stat *status)
{
	return regular_file_open_at(AT_FDCWD, path, link, status);
}

/* Links of the process, absolute ones too, end below its own root. */
static int find_below_root(__u32 tgid, const char *path, enum regular_link link)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (link == LINK_REFUSED ? O_NOFOLLOW : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	char root[PROC_PATH];
	int directory, found;

	proc_path(root, sizeof(root), tgid, "root");
	directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	found = syscall(SYS_openat2, directory, path, &how, sizeof(how));
	if (found < 0)
		found = -errno;
	close(directory);
	return found;
}

int regular_file_open_of(__u32 tgid, const char *path, struct stat *status)
{
	int found = find_below_root(tgid, path, LINK_REFUSED), fd;

	if (found < 0)
		return found;
	/* A link that was opened in place of what it leads to is no regular file. */
	fd = open_found(found, status);
	close(found);
	return fd;
}

static int open_by_path(const struct mapped_file *mapped, struct stat *status)
{
	int found = find_below_root(mapped->tgid, mapped->path, LINK_FOLLOWED), fd;
	struct stat own;

	if (found < 0)
		return found;
	fd = fstat(found, &own) ? -errno : 0;
	if (!fd &&
	    (own.st_ino != mapped->inode || major(own.st_dev) != mapped->major || minor(own.st_dev) != mapped->minor))
		fd = -ESTALE;
	fd = fd ?: open_found(found, status);
	close(found);
	return fd;
}

int mapped_file_open(const struct mapped_file *mapped, struct stat *status)
{
	char path[PROC_PATH];
	int fd;

	/* The very inode that is mapped, whatever its path is now and in which mount namespace. */
	proc_path(path, sizeof(path), mapped->tgid, "map_files/%llx-%llx", mapped->start, mapped->end);
	fd = regular_file_open(path, LINK_FOLLOWED, status);
	if (fd == -EPERM || fd == -EACCES)
		fd = open_by_path(mapped, status);
	return fd;
}
