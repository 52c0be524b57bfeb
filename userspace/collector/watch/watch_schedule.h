/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which of a line's eighths are watched in which window, and how: more of them
 * are of interest than there are debug registers.
 */
#ifndef LOCKLINE_WATCH_SCHEDULE_H
#define LOCKLINE_WATCH_SCHEDULE_H

#include <stdbool.h>
#include <linux/types.h>

#define WATCH_BLOCKS 64

/* Masks of eighths, so that each pair of them is watched together in one. */
struct watch_blocks {
	__u8 masks[WATCH_BLOCKS];
	__u32 count;
	__u32 turn;
};

struct watch_schedule {
	struct watch_blocks plain;
	struct watch_blocks typed; /* two watchpoints at each eighth; count 0: too few registers */
	__u32 typed_every;         /* of so many windows one is typed; 0: none */
	__u32 windows;
};

struct watch_selection {
	__u32 places; /* mask of the eighths */
	bool typed;
};

/* places: mask of the eighths that are of interest; slots: watchpoints that can be set at once. */
void watch_schedule_open(struct watch_schedule *turns, __u32 places, int slots);
/* Whether typed windows watch as much at once as others do. */
bool watch_schedule_typed_are_whole(const struct watch_schedule *turns);
void watch_schedule_next(struct watch_schedule *turns, struct watch_selection *next);
/* Whether all windows are like this one. */
bool watch_schedule_stay(const struct watch_schedule *turns, const struct watch_selection *turn);

#endif /* LOCKLINE_WATCH_SCHEDULE_H */
