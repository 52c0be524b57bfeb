/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --hitm, as a subsystem of a recording. */
#ifndef LOCKLINE_MEMORY_SUBSYSTEM_H
#define LOCKLINE_MEMORY_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem memory_subsystem;

#endif /* LOCKLINE_MEMORY_SUBSYSTEM_H */
