/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line on the terminal while recording, rewritten at each interval. */
#ifndef LOCKLINE_PROGRESS_H
#define LOCKLINE_PROGRESS_H

#include <stdbool.h>
#include <linux/types.h>

#include "cli/options.h"
#include "recording/recording.h"

struct progress {
	bool shown; /* stderr is a terminal that nothing else writes to */
};

void progress_open(struct progress *progress, const struct options *options);
/* Time so far, waits, the lock with most waiting, and what was lost. */
void progress_show(const struct progress *progress, struct recording *recording, __u64 elapsed_ns);
/* Takes the line away: something else is written next. */
void progress_clear(const struct progress *progress);

#endif /* LOCKLINE_PROGRESS_H */
