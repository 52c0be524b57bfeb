/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The checks of what stands beside the lock waits: --futex, --ptrace, --clocksource, --hitm. */
#ifndef LOCKLINE_PLAN_SIGNALS_H
#define LOCKLINE_PLAN_SIGNALS_H

#include "kernel/plan_checks.h"

enum probe_state check_futex_functions(struct finding *finding);
enum probe_state check_futex(struct finding *finding);
enum probe_state check_inactive_calls(struct finding *finding);
enum probe_state check_inactive_kprobe(struct finding *finding);
enum probe_state check_inactive_turns(struct finding *finding);
enum probe_state check_ptrace_attach(struct finding *finding);
enum probe_state check_ptrace_attach_kprobe(struct finding *finding);
enum probe_state check_clock_reads(struct finding *finding);
enum probe_state check_clock_reads_kprobe(struct finding *finding);
enum probe_state check_hitm(struct finding *finding);
void plan_signals(struct plan *plan, struct finding *finding);

#endif /* LOCKLINE_PLAN_SIGNALS_H */
