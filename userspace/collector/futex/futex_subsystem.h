/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --futex, as a subsystem of a recording. */
#ifndef LOCKLINE_FUTEX_SUBSYSTEM_H
#define LOCKLINE_FUTEX_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem futex_subsystem;

#endif /* LOCKLINE_FUTEX_SUBSYSTEM_H */
