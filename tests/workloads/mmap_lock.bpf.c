// SPDX-License-Identifier: GPL-2.0
/*
 * Holds the mmap_lock of one process, as a reader, until user space says
 * release: an iterator over its mappings runs with that lock held.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define HOLD_LIMIT_NS 3000000000ull

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
} __attribute__((preserve_access_index));

__u64 holding_ns;
__u64 released_ns;
int release;
int gave_up;

static long hold(__u32 index, void *context)
{
	__u64 now;

	if (*(volatile int *)&release)
		return 1;
	now = bpf_ktime_get_ns();
	if (now - holding_ns > HOLD_LIMIT_NS) {
		gave_up = 1;
		return 1;
	}
	return 0;
}

/* One loop is bounded at 2^23 turns. */
static long hold_on(__u32 index, void *context)
{
	bpf_loop(1 << 23, hold, NULL, 0);
	return *(volatile int *)&release || *(volatile int *)&gave_up;
}

SEC("iter/task_vma")
int hold_mmap_lock(struct bpf_iter__task_vma *context)
{
	if (!context->vma || holding_ns)
		return 0;
	*(volatile __u64 *)&holding_ns = bpf_ktime_get_ns();
	bpf_loop(1000, hold_on, NULL, 0);
	*(volatile __u64 *)&released_ns = bpf_ktime_get_ns();
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
