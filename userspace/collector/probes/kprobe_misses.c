// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "probes/kprobe_misses.h"

/* struct bpf_link_info of 6.7; the headers we are built with may be older. */
struct kprobe_link_info {
	__u32 type; /* BPF_LINK_TYPE_* */
	__u32 id;
	__u32 prog_id;
	__u32 pad;
	__u32 event_type; /* enum bpf_perf_event_type */
	__u32 event_pad;
	__u64 func_name;
	__u32 name_len;
	__u32 offset;
	__u64 address;
	__u64 missed;
	__u64 later[8]; /* what later kernels add */
};

#define LINK_TYPE_PERF_EVENT 7
#define EVENT_KPROBE         3
#define EVENT_KRETPROBE      4

int kprobe_misses(int link_fd, __u64 *misses)
{
	struct kprobe_link_info info = {};
	__u32 size = sizeof(info);

	*misses = 0;
	if (bpf_obj_get_info_by_fd(link_fd, &info, &size))
		return -errno;
	/* An older kernel says how much it filled in. */
	if (size < offsetof(struct kprobe_link_info, later) || info.type != LINK_TYPE_PERF_EVENT ||
	    (info.event_type != EVENT_KPROBE && info.event_type != EVENT_KRETPROBE))
		return -EOPNOTSUPP;
	*misses = info.missed;
	return 0;
}
