/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The checks behind the plan's table: what each says of a source, and why. */
#ifndef LOCKLINE_PLAN_CHECKS_H
#define LOCKLINE_PLAN_CHECKS_H

#include "kernel/evidence.h"
#include "kernel/plan.h"

/* What the checks look at, and where they say why. */
struct finding {
	const struct evidence *evidence;
	enum spinlock_mode mode;
	char mode_reason[PLAN_TEXT];
	char reason[PLAN_TEXT];
};

__attribute__((format(printf, 3, 4))) enum probe_state found(struct finding *finding, enum probe_state state,
							     const char *format, ...);

#define ON(...)          found(finding, PROBE_ON, __VA_ARGS__)
#define OFF(...)         found(finding, PROBE_OFF, __VA_ARGS__)
#define BLIND(...)       found(finding, PROBE_BLIND, __VA_ARGS__)
#define UNAVAILABLE(...) found(finding, PROBE_UNAVAILABLE, __VA_ARGS__)

enum probe_state check_waits(struct finding *finding);
/* function: NULL if the kernel's BTF lacks it. */
enum probe_state check_fentry(struct finding *finding, const char *function);

/* plan_signals.c: what stands beside the lock waits. */
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

/* plan_holders.c: the signals of --holders and --holds. */
enum probe_state check_spin_holders(struct finding *finding);
enum probe_state check_spin_holders_kprobe(struct finding *finding);
enum probe_state check_contended_release(struct finding *finding);
enum probe_state check_sleeping_unlocks(struct finding *finding);
enum probe_state check_owners(struct finding *finding);
enum probe_state check_holds(struct finding *finding);
/* Sets what the plan attaches for them. */
void plan_releases(struct plan *plan, struct finding *finding);
/* A signal that can be had: on if it was asked for. */
enum probe_state asked(struct finding *finding, bool wanted, const char *option);

/* plan_context.c: the signals of --episodes. */
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

#endif /* LOCKLINE_PLAN_CHECKS_H */
