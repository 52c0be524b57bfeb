/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether an access read or wrote: the disassembler tells by its instruction,
 * two watchpoints at one place by which of them were hit.  What these said of an
 * instruction holds for its other accesses too, as long as they always said the
 * same of it.
 */
#ifndef LOCKLINE_WATCH_DECODED_H
#define LOCKLINE_WATCH_DECODED_H

#include <stdbool.h>
#include <linux/types.h>

#include "base/hash_index.h"
#include "cli/options.h"

enum watch_decoded { DECODED_NOT, DECODED_BY_INSTRUCTION, DECODED_BY_WATCHPOINT, DECODED_BEFORE, DECODED_KINDS };

/* What two watchpoints said of an instruction so far. */
struct watch_kind {
	__u32 only_read;
	__u32 wrote;
};

/* flags: WATCH_* of the access' record. */
void watch_kind_note(struct watch_kind *kind, __u8 flags);
/*
 * Who tells, and what.  decoded: ACCESS_* of the disassembler, 0: it does not know; both: a write hits both watchpoints.
 * On x86 the watchpoints do not tell whether what wrote has read as well, on arm64 not that an atomic did both.
 */
enum watch_decoded watch_tell(enum watch_access_from from, __u8 decoded, __u8 flags, const struct watch_kind *kind,
			      bool both, __u8 *access);
/* Whether what the disassembler says can be, by the watchpoints of this access. */
bool watch_agree(__u8 decoded, __u8 flags, bool both);

/* An instruction, as both ways tell it, in windows with two watchpoints at each place. */
struct watch_comparison {
	__u32 code;
	__u8 decoded; /* ACCESS_*; of one instruction it can be another at another place */
	bool changed; /* since it was written last */
	__u64 only_read;
	__u64 wrote;
};

/* Of a line. */
struct watch_decoded_sums {
	__u64 by[DECODED_KINDS];
	__u64 compared; /* accesses that both ways told */
	__u64 disagreed;
	__u64 typed_windows;
	__u64 typed_hits;
	struct watch_comparison *comparisons;
	__u32 comparison_count;
	__u32 comparison_capacity;
	struct hash_index comparison_index;
	/* Of late, for watch_typed_every(): halved from time to time. */
	__u32 late;
	__u32 late_untold;
	bool wanted;
};

void watch_decoded_close(struct watch_decoded_sums *sums);
/* 0, or -ENOMEM; beyond the budget an instruction is in the counts of the line alone. */
int watch_decoded_add(struct watch_decoded_sums *sums, struct memory_budget *budget, __u32 code,
		      enum watch_decoded told, __u8 decoded, __u8 flags, bool both);
/* Of how many windows one should have two watchpoints at each place, so that what is not told becomes so; 0: none. */
__u32 watch_typed_every(struct watch_decoded_sums *sums);
/* "instruction", "watchpoint" or both, for the recording. */
const char *watch_access_from(enum watch_access_from from, const struct watch_decoded_sums *sums);

#endif /* LOCKLINE_WATCH_DECODED_H */
