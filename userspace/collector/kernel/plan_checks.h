/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the checks behind the plan's table have in common: each says of a source whether it can be used, and why. */
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

/* Whether programs can be used at all. */
enum probe_state check_programs(struct finding *finding);
enum probe_state check_waits(struct finding *finding);
/* function: NULL if the kernel's BTF lacks it. */
enum probe_state check_fentry(struct finding *finding, const char *function);

/* A signal that can be had: on if it was asked for. */
enum probe_state asked(struct finding *finding, bool wanted, const char *option);

#endif /* LOCKLINE_PLAN_CHECKS_H */
