/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Long waits in a session: what hears of them, what ends it before its time, and what a flight keeps. */
#ifndef LOCKLINE_FLIGHT_H
#define LOCKLINE_FLIGHT_H

#include "episodes/episodes.h"
#include "episodes/aside.h"
#include "cli/options.h"
#include "recording/recording.h"
#include "episodes/trigger.h"

struct flight {
	const struct options *options;
	struct recording *recording;
	struct episodes *episodes; /* NULL without --episodes */
	struct trigger trigger;
	struct aside aside;
	__u64 next_look_ns; /* at the waits in progress */
	bool looking;       /* at them, for the trigger's sake alone */
};

void flight_init(struct flight *flight, const struct options *options);
/* The trigger first, so that a marker that cannot be watched fails before anything is recorded. */
int flight_open(struct flight *flight, struct recording *recording);
void flight_close(struct flight *flight);
/* on_wait of events_listen(); data is the flight. */
int flight_on_wait(void *data, const struct long_wait *wait);
/* Whether anybody wants to hear. */
bool flight_listens(const struct flight *flight);
/* Totals alone are kept, still. */
bool flight_lasts(const struct flight *flight, bool last);
/* Where waits one by one go to. */
__s64 flight_interval(const struct flight *flight, __s64 interval);
/* After the rings of events were read: what surrounds the long waits, unless a flight lasts. */
int flight_drained(struct flight *flight, __u64 now_ns);
/* Whether a wait that still lasts is the one; every 100 ms. */
int flight_look(struct flight *flight, struct events *events, __u64 now_ns);
/* What was kept of the interval's long waits; a flight lets go of what is old. */
int flight_end_interval(struct flight *flight, __u64 now_ns, bool last);
/* Whether the recording is to end for it. */
bool flight_fired(const struct flight *flight);
/* With --save-last: takes what the trigger says; the trigger looks on. */
int flight_keep_aside(struct flight *flight, __s64 interval);
/* The trigger has fired: says so, and waits for what comes right after. */
void flight_tell(const struct flight *flight);
/* After the rings were read once more. */
int flight_save(struct flight *flight, __u64 fired_ns);

#endif /* LOCKLINE_FLIGHT_H */
