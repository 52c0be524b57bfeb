// SPDX-License-Identifier: GPL-2.0
/* -p and COMMAND cover what the processes fork: their bits are passed on, and taken back. */
#include "filter.bpf.h"
#include <bpf/bpf_tracing.h>

static __always_inline __u64 *filter_word(__u32 id)
{
	__u32 index = id >> 6 & (TASK_FILTER_WORDS - 1);

	return bpf_map_lookup_elem(&task_filter, &index);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	__u64 *word = filter_word(child->tgid);

	if (word && task_bit(0, parent->tgid))
		__sync_fetch_and_or(word, 1ull << (child->tgid & 63));
	return 0;
}

/* The last thread of a process is gone; its number may be used again. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(process_free, struct task_struct *task)
{
	__u64 *word = filter_word(task->tgid);

	if (word && task->pid == task->tgid)
		__sync_fetch_and_and(word, ~(1ull << (task->tgid & 63)));
	return 0;
}
