/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The checks of --holders and --holds. */
#ifndef LOCKLINE_PLAN_HOLDERS_H
#define LOCKLINE_PLAN_HOLDERS_H

#include "kernel/plan_checks.h"

enum probe_state check_spin_release(struct finding *finding);
enum probe_state check_spin_holders(struct finding *finding);
enum probe_state check_spin_holders_kprobe(struct finding *finding);
enum probe_state check_contended_release(struct finding *finding);
enum probe_state check_sleeping_unlocks(struct finding *finding);
enum probe_state check_owners(struct finding *finding);
enum probe_state check_holds(struct finding *finding);
/* Sets what the plan attaches for them. */
void plan_releases(struct plan *plan, struct finding *finding);

#endif /* LOCKLINE_PLAN_HOLDERS_H */
