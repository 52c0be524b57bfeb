/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --holders and --holds, as a subsystem of a recording. */
#ifndef LOCKLINE_HOLDERS_SUBSYSTEM_H
#define LOCKLINE_HOLDERS_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem holders_subsystem;

#endif /* LOCKLINE_HOLDERS_SUBSYSTEM_H */
