/* SPDX-License-Identifier: GPL-2.0 */
/* The time of all records: CLOCK_MONOTONIC. */
#ifndef CLOCK_BPF_H
#define CLOCK_BPF_H

#include "state.bpf.h"

/* bpf_ktime_get_coarse_ns() is not for tracing programs; jiffies are.  Wraps after 49 days at 1,000 Hz. */
static __noinline __u64 coarse_clock_now(void)
{
	return coarse_base_ns + (__u64)((__u32)bpf_jiffies64() - coarse_base_jiffies) * jiffy_ns;
}

/* A shared clocksource (hpet, acpi_pm) would make each wait a contended device read. */
static __always_inline __u64 clock_now(const struct cpu_state *state)
{
	return state->flags & STATE_COARSE_CLOCK ? coarse_clock_now() : bpf_ktime_get_ns();
}

#endif /* CLOCK_BPF_H */
