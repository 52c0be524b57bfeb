/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs around wait_task_inactive() (record --ptrace) share with the collector. */
#ifndef LOCKLINE_PTRACE_H
#define LOCKLINE_PTRACE_H

#include "lockline.h"

#define INACTIVE_SLOTS       1024
#define INACTIVE_ROWS        256 /* per CPU; the last takes the pairs without one */
#define INACTIVE_PROBES      8
#define INACTIVE_TURN_COUNTS 32 /* by 2^n */

/* A call in progress, by the caller's tid. */
struct inactive_slot {
	__u32 tid; /* 0: free */
	__u32 target;
	__u64 begin_ns;
	__u64 turns;
	__u64 pad[5];
};

/* One (caller, target) pair on one CPU. */
struct inactive_row {
	__u64 key; /* caller's tid << 32 | target's; 0: free */
	__u64 calls;
	__u64 turns;
	__u64 max_turns; /* of one call */
	__u64 wait_ns;
	__u64 max_ns;
	__u64 failed; /* calls that found the target in another state */
	__u32 tgid;   /* of the caller */
	__u32 target_tgid;
	__u64 traced; /* turns at which the target was traced */
	char comm[16];
	char target_comm[16];
	__u64 attaches; /* PTRACE_ATTACH and PTRACE_SEIZE, those that failed too */
	__u64 attach_ns;
	__u64 attach_max_ns;
};

struct inactive_state {
	__u64 no_slot;
	__u64 no_row;
	__u64 unmatched; /* ends without a begin */
	__u64 attach_failed;
	__u64 pad[4];
	__u32 turn_counts[INACTIVE_TURN_COUNTS];
	__u32 histogram[HISTOGRAM_BUCKETS];
	__u32 attach_histogram[HISTOGRAM_BUCKETS];
};

_Static_assert(sizeof(struct inactive_slot) == CACHE_LINE, "callers share no line");
_Static_assert(sizeof(struct inactive_row) == 2 * CACHE_LINE, "rows share no line");
_Static_assert(sizeof(struct inactive_state) % CACHE_LINE == 0, "CPUs share no line");

#endif /* LOCKLINE_PTRACE_H */
