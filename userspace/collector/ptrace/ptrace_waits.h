/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of wait_task_inactive() (record --ptrace), by tracer and tracee. */
#ifndef LOCKLINE_PTRACE_WAITS_H
#define LOCKLINE_PTRACE_WAITS_H

#include <stdbool.h>
#include <linux/types.h>

#include "recording/recording.h"

struct ptrace_waits;
struct lockline_bpf;

/* Before load; wanted: with --ptrace. */
int ptrace_waits_resize(struct lockline_bpf *bpf, __u32 cpus, bool wanted);
/* After load. */
int ptrace_waits_open(struct ptrace_waits **out, const struct lockline_bpf *bpf, __u32 cpus,
		      struct recording *recording);
void ptrace_waits_close(struct ptrace_waits *waits);
int ptrace_waits_flush(struct ptrace_waits *waits);

#endif /* LOCKLINE_PTRACE_WAITS_H */
