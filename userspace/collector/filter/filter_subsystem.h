/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LOCKLINE_FILTER_SUBSYSTEM_H
#define LOCKLINE_FILTER_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem filter_subsystem;

#endif /* LOCKLINE_FILTER_SUBSYSTEM_H */
