/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The checks of --episodes. */
#ifndef LOCKLINE_PLAN_CONTEXT_H
#define LOCKLINE_PLAN_CONTEXT_H

#include "kernel/plan_checks.h"

enum probe_state check_interrupts(struct finding *finding);
enum probe_state check_vectors(struct finding *finding);
enum probe_state check_ipis_received(struct finding *finding);
enum probe_state check_ipis_sent(struct finding *finding);
enum probe_state check_ipis_raised(struct finding *finding);
enum probe_state check_softirqs(struct finding *finding);
enum probe_state check_switches(struct finding *finding);
enum probe_state check_wake_ups(struct finding *finding);
enum probe_state check_wait_task(struct finding *finding);
void plan_context(struct plan *plan, struct finding *finding);

#endif /* LOCKLINE_PLAN_CONTEXT_H */
