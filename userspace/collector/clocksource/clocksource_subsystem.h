/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --clocksource, as a subsystem of a recording. */
#ifndef LOCKLINE_CLOCKSOURCE_SUBSYSTEM_H
#define LOCKLINE_CLOCKSOURCE_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem clocksource_subsystem;

#endif /* LOCKLINE_CLOCKSOURCE_SUBSYSTEM_H */
