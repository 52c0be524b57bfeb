/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command watch, as a subsystem of a recording. */
#ifndef LOCKLINE_WATCH_SUBSYSTEM_H
#define LOCKLINE_WATCH_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem watch_subsystem;

#endif /* LOCKLINE_WATCH_SUBSYSTEM_H */
