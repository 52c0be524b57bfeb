/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which of a line's eighths are watched in which window, and how: more of them
 * are of interest than there are debug registers.
 */
#ifndef LOCKLINE_WATCH_TURNS_H
#define LOCKLINE_WATCH_TURNS_H

#include <stdbool.h>
#include <linux/types.h>

#define WATCH_BLOCKS 64

/* Masks of eighths, so that each pair of them is watched together in one. */
struct watch_blocks {
	__u8 masks[WATCH_BLOCKS];
	__u32 count;
	__u32 turn;
};

struct watch_turns {
	struct watch_blocks plain;
	struct watch_blocks typed; /* two watchpoints at each eighth; count 0: too few registers */
	__u32 typed_every;         /* of so many windows one is typed; 0: none */
	__u32 windows;
};

struct watch_turn {
	__u32 places; /* mask of the eighths */
	bool typed;
};

/* places: mask of the eighths that are of interest; slots: watchpoints that can be set at once. */
void watch_turns_open(struct watch_turns *turns, __u32 places, int slots);
/* Whether typed windows watch as much at once as others do. */
bool watch_turns_typed_are_whole(const struct watch_turns *turns);
void watch_turns_next(struct watch_turns *turns, struct watch_turn *next);
/* Whether all windows are like this one. */
bool watch_turns_stay(const struct watch_turns *turns, const struct watch_turn *turn);

#endif /* LOCKLINE_WATCH_TURNS_H */
