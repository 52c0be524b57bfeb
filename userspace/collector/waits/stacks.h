/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stacks of the recording: stored once each, their frames named when first met. */
#ifndef LOCKLINE_STACKS_H
#define LOCKLINE_STACKS_H

#include <stdbool.h>
#include <linux/types.h>

#include "names/symbols.h"
#include "naming/naming_queue.h"
#include "recording/recording.h"
#include "waits/monitors.h"

struct stacks {
	struct recording *recording;
	const struct symbols *symbols;
	struct naming_queue *naming; /* NULL: user frames stay without names */
	bool interrupted;            /* the recording is to end at once */
	struct monitors *monitors;   /* those that are in the recording */
};

/* Drops the frames of the probe itself from the leaf; returns how many frames are left at *frames. */
int stacks_trim(const struct symbols *symbols, const __u64 **frames, int count);
/* Id of the stack; 0 for one without frames; negative errno. tgid 0: a kernel stack. */
__s64 stacks_id(struct stacks *stacks, __u32 tgid, const __u64 *frames, int count);

/* Puts a sample of a futex into the recording, with the stack that it has. */
int stacks_put_sample(struct stacks *stacks, const struct naming_sample *sample);

/* Puts the names of user space, the unwound samples and the looks at monitors that were found into the recording; last: waits for those that are not, for a while. */
int stacks_put_names(struct stacks *stacks, bool last);

#endif /* LOCKLINE_STACKS_H */
