/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frames of code that a JVM made, and their names, by what the JVM's own tables say of its memory.  Runs in the
 * helper alone: see naming_helper.c.
 */
#ifndef LOCKLINE_NAMING_HOTSPOT_H
#define LOCKLINE_NAMING_HOTSPOT_H

#include "helper/naming_target.h"

/* libjvm: its object.  -ENOENT: the leaf is in no code of the JVM's. */
int naming_hotspot_unwind(__u32 libjvm, const struct naming_memory *asked, const struct naming_stack *from,
			  struct naming_frames *frames);
/* Who waits for which monitor now; cursor: of the look before. */
int naming_hotspot_monitors(__u32 libjvm, const struct naming_memory *asked, __u32 cursor,
			    struct hotspot_monitors *monitors);
/* Of an address of the JVM's code, or of a method. */
int naming_hotspot_name(__u32 libjvm, const struct naming_memory *asked, __u64 address, struct naming_answer *answer);

#endif /* LOCKLINE_NAMING_HOTSPOT_H */
