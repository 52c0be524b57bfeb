/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The plan for people and programs: what `lockline doctor` prints. */
#ifndef LOCKLINE_PLAN_JSON_H
#define LOCKLINE_PLAN_JSON_H

#include "kernel/plan.h"

struct cpu_pairs;

/* lockline-doctor/1 on stdout; pairs: NULL without --deep.  See docs/doctor.md. */
void plan_print_json(const struct plan *plan, const struct cpu_pairs *pairs);

#endif /* LOCKLINE_PLAN_JSON_H */
