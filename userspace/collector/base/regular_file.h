/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens files that others own.  Their paths may lead to a FIFO, a device or a
 * link by the time that we open them: none of these is opened, and nothing here
 * waits.
 */
#ifndef LOCKLINE_REGULAR_FILE_H
#define LOCKLINE_REGULAR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <linux/types.h>

/* What a link at the end of a path means. */
enum regular_link {
	LINK_REFUSED,  /* -ELOOP */
	LINK_FOLLOWED, /* a path that the user or the system gave, or a link of /proc */
};

/*
 * To read, if it is a regular file: a descriptor, or negative errno; -ENXIO: it
 * is something else.  status, if not NULL: of the file that was opened.
 */
int regular_file_open(const char *path, enum regular_link link, struct stat *status);
/* The same of a path below an open directory, as openat() takes it. */
int regular_file_open_at(int directory, const char *path, enum regular_link link, struct stat *status);

/* The same of an absolute path below the root of a process, where its links end too; the file itself must be none. */
int regular_file_open_of(__u32 tgid, const char *path, struct stat *status);

/*
 * The file that the process has mapped at start to end.  path: as
 * /proc/PID/maps has it, for where the kernel does not let us open the mapping
 * itself; then the file is looked up below the process's root, where its links
 * end too, and must be the inode of the device that is mapped.  -ESTALE: it is another one.
 */
struct mapped_file {
	__u32 tgid;
	__u64 start, end;
	__u64 inode;
	__u32 major, minor;
	const char *path;
};

int mapped_file_open(const struct mapped_file *mapped, struct stat *status);

#endif /* LOCKLINE_REGULAR_FILE_H */
