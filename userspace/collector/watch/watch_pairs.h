/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records of a window with two watchpoints at each place: a write on x86 hits
 * both, in one exception, and leaves two records; a read hits one.
 */
#ifndef LOCKLINE_WATCH_PAIRS_H
#define LOCKLINE_WATCH_PAIRS_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/watch.h"

/* Whether the two are of one exception, each by one of the watchpoints at a place. */
bool watch_is_pair(const struct watch_record *one, const struct watch_record *other);
/*
 * Makes one record of each access, out of those of one CPU in the order of
 * their sequence: with WATCH_WROTE or WATCH_ONLY_READ, or neither where a record
 * beside it is missing.  both: a write hits both, as on x86.  The new count.
 */
__u64 watch_pairs_merge(struct watch_record *records, __u64 count, bool both);

#endif /* LOCKLINE_WATCH_PAIRS_H */
