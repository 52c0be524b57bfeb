/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LOCKLINE_SESSION_SIZES_H
#define LOCKLINE_SESSION_SIZES_H

#include "cli/options.h"
#include "kernel/plan.h"
#include "probes/sizing.h"

/* The division of the memory that the options ask for; plan: NULL if every signal is taken as available.  A refusal has been told. */
int sizing_for_options(const struct options *options, const struct plan *plan, struct sizing *sizing);

/* The memory plan as JSON on stdout. */
int session_sizes(const struct options *options);

#endif /* LOCKLINE_SESSION_SIZES_H */
