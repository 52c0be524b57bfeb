/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --ptrace, as a subsystem of a recording. */
#ifndef LOCKLINE_PTRACE_SUBSYSTEM_H
#define LOCKLINE_PTRACE_SUBSYSTEM_H

#include "probes/subsystem.h"

extern const struct subsystem ptrace_subsystem;

#endif /* LOCKLINE_PTRACE_SUBSYSTEM_H */
