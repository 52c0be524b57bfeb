/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which lines a recording keeps, best first, and their accesses in the order in which they are written. */
#ifndef LOCKLINE_MEMORY_RANK_H
#define LOCKLINE_MEMORY_RANK_H

#include "memory/memory_lines.h"

struct memory_rank {
	__u32 *lines; /* numbers of the lines that are kept, best first */
	__u32 line_count;
	struct memory_access *accesses; /* of the kept lines in this order, then by offset and code */
	__u32 *ends;                    /* of each kept line's accesses */
	bool own;                       /* the accesses are copies, that samples to come do not change */
	__u64 lines_left_out;
	__u64 records_left_out;
	__u64 snoops_left_out;
};

/*
 * Keeps lines until they have this many accesses in sum, each thread's counted, and in any case each line with a
 * thousandth of all HITM and peer snoops: perf c2c lists no other.  own: as in the structure; without it the lines'
 * accesses are to live as long as the rank.
 */
int memory_rank_make(struct memory_rank *rank, struct memory_lines *lines, __u64 accesses, bool own);
void memory_rank_free(struct memory_rank *rank);

#endif /* LOCKLINE_MEMORY_RANK_H */
