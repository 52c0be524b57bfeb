/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LOCKLINE_SLEEPS_SUBSYSTEM_H
#define LOCKLINE_SLEEPS_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem sleeps_subsystem;

#endif /* LOCKLINE_SLEEPS_SUBSYSTEM_H */
