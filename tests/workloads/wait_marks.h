/* SPDX-License-Identifier: GPL-2.0 */
/* What wait_marks and its programs share. */
#ifndef WAIT_MARKS_H
#define WAIT_MARKS_H

#define MARKS        6    /* of each half; between two marks lies a gap, which the later one measures */
#define GAP_BUCKETS  4096 /* the last one takes what is longer */
#define BUCKET_SHIFT 2    /* ns in one: 4 */

enum half { HALF_BEGIN, HALF_END, HALVES };

/* Of one CPU and half; only its programs write it. */
struct marked {
	__u64 marked_ns; /* when the last mark left */
	__u64 sum_ns[MARKS];
	__u32 buckets[MARKS][GAP_BUCKETS];
};

#endif /* WAIT_MARKS_H */
