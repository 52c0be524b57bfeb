/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file of a recording: made beside an earlier one, which becomes PATH.old once the new one holds something. */
#ifndef LOCKLINE_OUTPUT_FILE_H
#define LOCKLINE_OUTPUT_FILE_H

#include <stdbool.h>

struct output_file {
	char *path;   /* absolute, links followed */
	char *target; /* of output_file_create_beside(): what path becomes */
	int fd;       /* holds the lock that keeps a second collector away */
	bool moved;   /* an earlier recording waits as PATH.previous */
};

/* As output_file_create() would say at once; changes nothing.  That the disk is full or read-only, only that tells. */
int output_file_check(const char *path);
/* Mode 0600.  -EEXIST: neither a file nor nothing; -EBUSY: another collector writes it. */
int output_file_create(struct output_file *file, const char *path);
/* As PATH.part; an earlier file stays until output_file_publish(). */
int output_file_create_beside(struct output_file *file, const char *path);
/* After SQLite has closed it: PATH.part becomes PATH, an earlier one PATH.old. */
int output_file_publish(struct output_file *file);
/* The recording holds an interval: the earlier one is now PATH.old. */
void output_file_settle(struct output_file *file);
/* It never will: the earlier one comes back. */
void output_file_abandon(struct output_file *file);
/* Whether sudo was called by a user, who is to have the file. */
bool output_file_has_user(void);
/* The file is whole: that user gets it. */
void output_file_give(struct output_file *file);
/* After SQLite's own descriptors: closing one of a file drops the process's locks on it. */
void output_file_close(struct output_file *file);

#endif /* LOCKLINE_OUTPUT_FILE_H */
