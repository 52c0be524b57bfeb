/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --c2c, as a subsystem of a recording. */
#ifndef LOCKLINE_C2C_SUBSYSTEM_H
#define LOCKLINE_C2C_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem c2c_subsystem;

#endif /* LOCKLINE_C2C_SUBSYSTEM_H */
