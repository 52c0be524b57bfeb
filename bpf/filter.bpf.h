/* SPDX-License-Identifier: GPL-2.0 */
/* Filters, applied before anything is recorded.  Without any, a wait reads nothing for them but its CPU's first line. */
#ifndef FILTER_BPF_H
#define FILTER_BPF_H

#include "state.bpf.h"
#include "compat.bpf.h"

/* Any of the filters, by whatever: one look is all that a wait without them pays for. */
const volatile bool filtered __weak = false;

#define CGROUP_DEPTH 16

static __always_inline bool task_bit(__u32 base, __u32 id)
{
	__u32 index = base + (id >> 6 & (TASK_FILTER_WORDS - 1));
	__u64 *word = bpf_map_lookup_elem(&task_filter, &index);

	return word && *word >> (id & 63) & 1;
}

static __always_inline struct cgroup *current_cgroup(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();

	if (cgroup_v1_subsys < 0)
		return BPF_CORE_READ(task, cgroups, dfl_cgrp);
	return BPF_CORE_READ(task, cgroups, subsys[cgroup_v1_subsys & 15], cgroup);
}

static __always_inline __u64 current_cgroup_id(void)
{
	return BPF_CORE_READ(current_cgroup(), kn, id);
}

/* In the cgroup or below it.  Walks parents: cgroup.ancestors[] came with 6.1, ancestor_ids[] went with it. */
static __noinline int in_filter_cgroup(void)
{
	struct cgroup *cgroup = current_cgroup();

	for (int depth = 0; depth < CGROUP_DEPTH; depth++) {
		struct cgroup_subsys_state *parent;

		if (!cgroup)
			return 0;
		if (BPF_CORE_READ(cgroup, kn, id) == filter_cgroup)
			return 1;
		parent = BPF_CORE_READ(cgroup, self.parent);
		cgroup = parent ? (void *)parent - bpf_core_field_offset(struct cgroup, self) : NULL;
	}
	return 0;
}

static __always_inline bool wanted_ids(__u64 pid_tgid)
{
	if (filter_tasks && !task_bit(0, pid_tgid >> 32) && !task_bit(TASK_FILTER_WORDS, (__u32)pid_tgid))
		return false;
	return !filter_cgroup || in_filter_cgroup();
}

static __noinline __attribute__((unused)) int wanted_task(void)
{
	return wanted_ids(bpf_get_current_pid_tgid());
}

/* Let in at begin for what they may turn out to be: spinlocks, for --kinds rqspinlock. */
static __always_inline bool kind_recorded(__u32 kind)
{
	return wait_kinds >> kind & 1;
}

#endif /* FILTER_BPF_H */
