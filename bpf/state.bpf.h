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

const volatile __u32 ring_mask __weak = 0;    /* events per CPU - 1 */
const volatile __u32 sleep_mask __weak = 0;   /* sleep slots - 1 */
const volatile __u32 wait_kinds __weak = ~0u; /* kinds recorded at end */
const volatile bool user_stacks __weak = false;
const volatile bool filter_tasks __weak = false;
const volatile __u64 filter_cgroup __weak = 0; /* kernfs id; 0: no filter */
const volatile __s32 cgroup_v1_subsys __weak = -1;

/* STATE_COARSE_CLOCK: CLOCK_MONOTONIC at a jiffy, which jiffy, and ns per jiffy; set before attaching. */
__u64 coarse_base_ns __weak = 0;
__u32 coarse_base_jiffies __weak = 0;
__u32 jiffy_ns __weak = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps")
__weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_row);
} totals SEC(".maps")
__weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sleep_slot);
} sleepers SEC(".maps")
__weak;

/* Sizes instead of types: without --user-stacks the values lack the user half. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct wait_stack));
} spin_stacks SEC(".maps")
__weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct wait_stack));
} sleep_stacks SEC(".maps")
__weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct wait_event));
} wait_events SEC(".maps")
__weak;

/* Bits by tgid, then by tid; PID_MAX_LIMIT is 2^22. */
#define TASK_FILTER_WORDS (1u << 16)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} task_filter SEC(".maps")
__weak;

#endif /* STATE_BPF_H */
