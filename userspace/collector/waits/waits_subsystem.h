/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lock waits, as a subsystem of a recording: what all others stand on. */
#ifndef LOCKLINE_WAITS_SUBSYSTEM_H
#define LOCKLINE_WAITS_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem waits_subsystem;

#endif /* LOCKLINE_WAITS_SUBSYSTEM_H */
