/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ends a recording before its time: --until, SIGUSR2, a line written to trace_marker. */
#ifndef LOCKLINE_TRIGGER_H
#define LOCKLINE_TRIGGER_H

#include <stdbool.h>

#include "waits/events.h"
#include "cli/options.h"
#include "cli/until.h"

struct trigger {
	struct until until;
	struct recording *recording; /* for the names of locks */
	bool wanted;                 /* --until or --flight */
	int marker;                  /* file descriptor to poll, or -1 */
	bool fired;
	bool of_wait; /* by a wait */
	char why[384];
};

/*
 * trigger: all zero but for marker -1 and wanted.  A marker that cannot be watched has been told, and is an error: it may be all that would end the recording.
 */
int trigger_open(struct trigger *trigger, const struct options *options, struct recording *recording);
void trigger_close(struct trigger *trigger);
/* True if this wait is the one. */
bool trigger_wait(struct trigger *trigger, const struct long_wait *wait);
void trigger_signal(struct trigger *trigger);
/* Looks whether a line was written to trace_marker. */
void trigger_look(struct trigger *trigger);

#endif /* LOCKLINE_TRIGGER_H */
