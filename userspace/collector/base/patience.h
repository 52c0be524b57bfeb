/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads of another process's memory, and opens of its files, that need not end: a page or a file may be of a file system
 * that the process itself serves (FUSE), or the process may hold the lock of its mappings for good, and whoever waits
 * for one of them cannot even be killed.  They are made by processes of their own, which are left alone when it takes
 * too long.
 */
#ifndef LOCKLINE_PATIENCE_H
#define LOCKLINE_PATIENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <linux/types.h>

#include "base/regular_file.h"

/* In main(), first: whether this process is to be such a reader, and what it does then.  Without these calls, as in
 * tests, reads are made by whoever asks. */
bool patience_reader_wanted(int argc, char **argv);
int patience_reader_main(void);

/* As process_vm_readv(2) of one range; -ETIMEDOUT, -EBUSY: a read of that process did not end, now or before. */
ssize_t patience_read(__u32 tgid, __u64 address, void *out, size_t size);
/* The same of words that lie apart, so many at most. */
#define PATIENCE_WORDS 32
ssize_t patience_read_words(__u32 tgid, const __u64 *addresses, __u32 count, __u64 *out);
/* /proc/TGID/maps, in memory, up to 16 MiB of it; NULL with errno. */
FILE *patience_open_maps(__u32 tgid);
/* As mapped_file_open() and regular_file_open_of() in base/regular_file.h; status is not NULL. */
int patience_open_mapped(const struct mapped_file *mapped, struct stat *status);
int patience_open_of(__u32 tgid, const char *path, struct stat *status);
/* stat(2) of /proc/TGID/exe. */
int patience_program(__u32 tgid, struct stat *status);
/* Ends the readers, so that the next ones have no more rights than the caller has by now. */
void patience_end(void);
/* Reads that did not end in time, ever. */
__u64 patience_lost(void);

#endif /* LOCKLINE_PATIENCE_H */
