/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host in words: facts for the recording's meta table and the doctor. */
#ifndef LOCKLINE_HOST_H
#define LOCKLINE_HOST_H

#include "kernel/evidence.h"
#include "kernel/plan.h"

/* thorough (for the doctor): also asks `perf` for its version. */
void host_facts(struct plan *plan, const struct evidence *evidence, bool thorough);

#endif /* LOCKLINE_HOST_H */
