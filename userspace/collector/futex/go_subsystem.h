/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Goroutines that wait for mutexes (record --futex --go): see go_subsystem.c. */
#ifndef LOCKLINE_GO_SUBSYSTEM_H
#define LOCKLINE_GO_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem go_subsystem;

#endif /* LOCKLINE_GO_SUBSYSTEM_H */
