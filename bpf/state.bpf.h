/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Configuration and shared memory of all programs.  Weak, so that every file
 * that includes this brings them and the linker keeps one.
 *
 * Maps are plain arrays that the collector maps: lookups are inlined by the
 * verifier, nothing locks, nothing allocates.  Sizes are set at load by
 * sizing.c; the ones here keep veristat happy.
 */
#ifndef STATE_BPF_H
#define STATE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "lockline.h"

const volatile __u32 ring_mask __weak = 0;  /* events per CPU - 1 */
const volatile __u32 sleep_mask __weak = 0; /* sleep slots - 1 */
/* resilient_queued_spin_lock_slowpath(); 0: the kernel has none, or hides its address */
const volatile __u64 resilient_text __weak = 0;
const volatile __u64 resilient_text_size __weak = 0;
/* native_queued_spin_lock_slowpath() or queued_spin_lock_slowpath(), and __pv_queued_spin_lock_slowpath(); as above */
const volatile __u64 spin_text[SPIN_TEXTS] __weak = {};
const volatile __u64 spin_text_size[SPIN_TEXTS] __weak = {};
const volatile __u32 wait_kinds __weak = ~0u; /* kinds recorded at end */
/* The slow paths of spinlocks are probed: two programs may then end waits for locks that share a row without a name */
const volatile bool shares_other_rows __weak = false;
/* As is that of rwsems for writers: its wait has begun when the tracepoint inside it comes */
const volatile bool probes_rwsem_writers __weak = false;
const volatile bool user_stacks __weak = false;
const volatile bool filter_tasks __weak = false;
const volatile __u64 filter_cgroup __weak = 0; /* kernfs id; 0: no filter */
const volatile __s32 cgroup_v1_subsys __weak = -1;

const volatile __u32 holding_mask __weak = 0;       /* turns per CPU - 1 */
const volatile __u32 wake_mask __weak = 0;          /* turns until the collector is woken - 1; 0: it looks by itself */
const volatile bool record_holdings __weak = false; /* --holders */
const volatile bool count_waiters __weak = false;   /* their lock words do not tell */
const volatile bool measure_holds __weak = false;   /* --holds */

const volatile __u32 context_mask __weak = 0; /* relief records per CPU - 1 */
const volatile __u32 context_cpus __weak = 0; /* possible CPUs */

/* STATE_COARSE_CLOCK: CLOCK_MONOTONIC at a jiffy, which jiffy, and ns per jiffy; set before attaching. */
__u64 coarse_base_ns __weak = 0;
__u32 coarse_base_jiffies __weak = 0;
__u32 jiffy_ns __weak = 0;

/*
 * An array that the collector maps.  Its value has a size instead of a type:
 * without --user-stacks the values that hold stacks are made shorter.
 */
#define SHARED_ARRAY(name, value)                  \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__uint(key_size, sizeof(__u32));   \
		__uint(value_size, sizeof(value)); \
	} name SEC(".maps")                        \
	__weak

SHARED_ARRAY(cpu_states, struct cpu_state);
SHARED_ARRAY(totals, struct wait_row);
SHARED_ARRAY(sleepers, struct sleep_slot);
SHARED_ARRAY(spin_stacks, struct wait_stack);
SHARED_ARRAY(sleep_stacks, struct wait_stack);
SHARED_ARRAY(stack_steps, struct stack_steps);
SHARED_ARRAY(wait_events, struct wait_event);

SHARED_ARRAY(holding_records, struct holding_record);
SHARED_ARRAY(release_states, struct release_state);
SHARED_ARRAY(release_stacks, struct wait_stack);
SHARED_ARRAY(sleep_owners, __u32);
SHARED_ARRAY(waiter_counts, struct waiter_count);
SHARED_ARRAY(focus, __u64);
SHARED_ARRAY(hold_rows, struct hold_row);

/* Of each CPU an event that wakes the collector; see end_holding(). */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} holding_wakes SEC(".maps")
__weak;

SHARED_ARRAY(context_records, struct context_record);
SHARED_ARRAY(context_states, struct context_state);

/* Bits by tgid, then by tid; PID_MAX_LIMIT is 2^22. */
#define TASK_FILTER_WORDS (1u << 16)
SHARED_ARRAY(task_filter, __u64);

#endif /* STATE_BPF_H */
