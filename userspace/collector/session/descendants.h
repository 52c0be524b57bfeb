/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LOCKLINE_DESCENDANTS_H
#define LOCKLINE_DESCENDANTS_H

#include "probes/probes.h"

/*
 * Lets the children, and theirs, of all processes that are followed through the task filter.  After attaching:
 * of a process that is let in, the programs follow what it forks from then on.
 */
void descendants_follow(struct probes *probes);

#endif /* LOCKLINE_DESCENDANTS_H */
