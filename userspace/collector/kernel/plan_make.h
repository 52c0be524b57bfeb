/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From what this kernel offers to what is attached. */
#ifndef LOCKLINE_PLAN_MAKE_H
#define LOCKLINE_PLAN_MAKE_H

#include "names/symbols.h"
#include "cli/options.h"
#include "kernel/plan.h"

struct evidence;
struct types;

/*
 * Looks, attaches nothing, changes nothing, never fails on a missing feature.  types: the kernel's, which the caller
 * closes; NULL: it has none.
 */
int plan_make(struct plan *plan, const struct options *options, const struct symbols *symbols, struct types **types);

/* The plan without facts, from the evidence alone. */
void plan_decide(struct plan *plan, const struct evidence *evidence);

#endif /* LOCKLINE_PLAN_MAKE_H */
