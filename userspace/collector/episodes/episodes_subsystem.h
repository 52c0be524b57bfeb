/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --episodes, --flight and --until, as a subsystem of a recording. */
#ifndef LOCKLINE_EPISODES_SUBSYSTEM_H
#define LOCKLINE_EPISODES_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem episodes_subsystem;

#endif /* LOCKLINE_EPISODES_SUBSYSTEM_H */
