/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The programs of --episodes. */
#ifndef LOCKLINE_CONTEXT_PROBES_H
#define LOCKLINE_CONTEXT_PROBES_H

#include "probes/subsystem.h"

/* Appends them in the order of attaching; returns the new count. */
int context_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count);

#endif /* LOCKLINE_CONTEXT_PROBES_H */
