/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who waits for a lock on a file, and who has it: /proc/locks. */
#ifndef LOCKLINE_FILE_LOCKS_H
#define LOCKLINE_FILE_LOCKS_H

#include <stdbool.h>
#include <linux/types.h>

#define FILE_LOCK_NAME 256

/* A line of /proc/locks. */
struct file_lock_line {
	__u32 lock;    /* its number there: the same for those who wait for it */
	bool waits;    /* "->" */
	int pid;       /* process; 0 or less: not known, as of a lock of an open file */
	__u64 inode;   /* of the file */
	char file[64]; /* MAJOR:MINOR:INODE */
};

/* Process waiter waits for a lock on a file that holder has. */
struct file_lock_wait {
	__u32 waiter;
	__u32 holder;              /* 0: not known, or several */
	char file[FILE_LOCK_NAME]; /* path; MAJOR:MINOR:INODE if it is not known */
};

/* False: it is no such line. */
bool file_lock_parse(const char *line, struct file_lock_line *out);
/* Whether a thread that sleeps in this function of the kernel may wait for a lock on a file. */
bool file_lock_may_wait(const char *function);
/* Reads /proc/locks, which stops who locks files for a moment; returns how many waits it has put in out. */
int file_locks_read(struct file_lock_wait *out, int most);

#endif /* LOCKLINE_FILE_LOCKS_H */
