/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hash bucket of a futex. */
#ifndef LOCKLINE_FUTEX_BUCKET_H
#define LOCKLINE_FUTEX_BUCKET_H

#include "names/lock_types.h"

/* jhash2() of include/linux/jhash.h: words of 32 bits. */
__u32 futex_hash(const __u32 *words, __u32 count, __u32 first);

/* What calls without FUTEX_PRIVATE_FLAG are hashed by; all 0: they have the flag. */
struct futex_shared {
	bool shared;
	__u64 sequence; /* of the inode that is mapped, inode.i_sequence; 0: memory of no file, hashed by address */
	__u64 page;     /* of that file */
};

/*
 * task: address of a task_struct of the process.  *own: whether the bucket is in a hash of the process's own (6.16),
 * which ends with it, and moves when it is resized.  -EOPNOTSUPP: this kernel's hash is not known, or not to be seen.
 */
int futex_bucket_find(const struct lock_names *names, __u64 task, __u64 address, const struct futex_shared *shared,
		      __u64 *bucket, bool *own);
/* The inode.i_sequence of a descriptor of ours; task: our own task_struct.  -ENOENT: it never had a shared futex. */
int futex_bucket_sequence(const struct lock_names *names, __u64 task, int fd, __u64 *sequence);

#endif /* LOCKLINE_FUTEX_BUCKET_H */
