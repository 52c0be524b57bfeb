// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "cli/message.h"
#include "recording/output_file.h"

/* SQLite's companions of a recording that was killed belong to it. */
static const char *const companions[] = {"-wal", "-shm", ""};

/* Renames PATH<from> to PATH<to>, companions with it. */
static int move(const char *path, const char *from, const char *to)
{
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(companions) / sizeof(companions[0]); i++) {
		char old[PATH_MAX + 16], new[PATH_MAX + 16];

		snprintf(old, sizeof(old), "%s%s%s", path, from, companions[i]);
		snprintf(new, sizeof(new), "%s%s%s", path, to, companions[i]);
		unlink(new);
		if (rename(old, new) && errno != ENOENT)
			err = -errno;
	}
	return err;
}

/* Only a SQLite file, as a recording is, or an empty file is replaced: -o with another file's name is a slip, and of .old there is one. */
static bool may_be_replaced(const char *path)
{
	static const char magic[] = "SQLite format 3";
	char begin[sizeof(magic)];
	int fd = regular_file_open(path, LINK_REFUSED, NULL);
	ssize_t length;

	if (fd < 0)
		return true; /* the next step reports what is wrong */
	length = read(fd, begin, sizeof(begin));
	close(fd);
	return !length || (length == sizeof(begin) && !memcmp(begin, magic, sizeof(begin)));
}

/* An absolute path whose last part is no link; the file need not exist.  -ELOOP: it is a link, which may be anybody's. */
static int resolve(const char *path, char **out)
{
	char directory[PATH_MAX], *slash, *parent;
	struct stat info;

	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (!lstat(path, &info)) {
		if (S_ISLNK(info.st_mode))
			return -ELOOP;
		*out = realpath(path, NULL);
		if (!*out)
			return -errno;
		/* A directory or a device (-o /dev/null) is not ours to move away. */
		if (stat(*out, &info))
			return -errno;
		if (S_ISDIR(info.st_mode))
			return -EISDIR;
		return S_ISREG(info.st_mode) && may_be_replaced(*out) ? 0 : -EEXIST;
	}
	if (errno != ENOENT)
		return -errno;
	strcpy(directory, path);
	slash = strrchr(directory, '/');
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : *directory ? directory : "/", NULL);
	if (!parent)
		return -errno;
	slash = strrchr(path, '/');
	if (asprintf(out, "%s/%s", strcmp(parent, "/") ? parent : "", slash ? slash + 1 : path) < 0)
		*out = NULL;
	free(parent);
	return *out ? 0 : -ENOMEM;
}

/* Whether a collector writes the file now. */
static bool in_use(const char *path)
{
	int fd = regular_file_open(path, LINK_REFUSED, NULL);
	bool busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return busy;
}

int output_file_check(const char *path)
{
	char *resolved = NULL;
	int err = resolve(path, &resolved);

	if (!err && in_use(resolved))
		err = -EBUSY;
	free(resolved);
	return err;
}

int output_file_create(struct output_file *file, const char *path)
{
	int err;

	*file = (struct output_file){.fd = -1};
	err = resolve(path, &file->path);
	if (!err && in_use(file->path))
		err = -EBUSY;
	if (!err && !access(file->path, F_OK)) {
		err = move(file->path, "", ".previous");
		file->moved = !err;
	}
	if (err)
		return err;
	file->fd = open(file->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file->fd < 0)
		err = -errno;
	else if (flock(file->fd, LOCK_EX | LOCK_NB))
		err = -EBUSY;
	if (err)
		output_file_abandon(file);
	return err;
}

static void remove_all(const char *path)
{
	for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++) {
		char name[PATH_MAX + 16];

		snprintf(name, sizeof(name), "%s%s", path, companions[i]);
		unlink(name);
	}
}

int output_file_create_beside(struct output_file *file, const char *path)
{
	int err;

	*file = (struct output_file){.fd = -1};
	err = resolve(path, &file->target);
	if (err)
		return err;
	if (asprintf(&file->path, "%s.part", file->target) < 0) {
		file->path = NULL;
		return -ENOMEM;
	}
	if (in_use(file->target) || in_use(file->path))
		return -EBUSY;
	/* Of an import that was killed. */
	remove_all(file->path);
	file->fd = open(file->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file->fd < 0)
		return -errno;
	return flock(file->fd, LOCK_EX | LOCK_NB) ? -EBUSY : 0;
}

int output_file_publish(struct output_file *file)
{
	int err = access(file->target, F_OK) ? 0 : move(file->target, "", ".old");

	if (!err && rename(file->path, file->target))
		err = -errno;
	return err;
}

void output_file_settle(struct output_file *file)
{
	if (file->moved)
		move(file->path, ".previous", ".old");
	file->moved = false;
}

void output_file_abandon(struct output_file *file)
{
	if (file->fd >= 0)
		remove_all(file->path);
	if (file->moved)
		move(file->path, ".previous", "");
	file->moved = false;
}

/* An id as sudo writes it; -1: none. */
static long sudo_id(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long id;

	if (!text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	id = strtol(text, &end, 10);
	return errno || *end || id > INT_MAX ? -1 : id;
}

bool output_file_has_user(void)
{
	return !geteuid() && sudo_id("SUDO_UID") > 0 && sudo_id("SUDO_GID") >= 0;
}

void output_file_give(struct output_file *file)
{
	/* By the open file: nobody can put another one in its place.  Its mode stays 0600. */
	if (file->fd >= 0 && output_file_has_user() && fchown(file->fd, sudo_id("SUDO_UID"), sudo_id("SUDO_GID")))
		message("%s still belongs to root: %s", file->path, strerror(errno));
}

void output_file_close(struct output_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	free(file->path);
	free(file->target);
	file->path = file->target = NULL;
}
