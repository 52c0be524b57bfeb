/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of wait_task_inactive() (record --ptrace), by tracer and tracee. */
#ifndef LOCKLINE_INACTIVE_WAITS_H
#define LOCKLINE_INACTIVE_WAITS_H

#include <stdbool.h>
#include <linux/types.h>

#include "recording.h"

struct inactive_waits;
struct lockline_bpf;

/* Before load; wanted: with --ptrace. */
int inactive_waits_resize(struct lockline_bpf *bpf, __u32 cpus, bool wanted);
/* After load. */
int inactive_waits_open(struct inactive_waits **out, const struct lockline_bpf *bpf, __u32 cpus,
			struct recording *recording);
void inactive_waits_close(struct inactive_waits *waits);
int inactive_waits_flush(struct inactive_waits *waits);

#endif /* LOCKLINE_INACTIVE_WAITS_H */
