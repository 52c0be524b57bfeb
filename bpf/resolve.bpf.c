// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of kernel memory that give a lock its name.  The collector runs these
 * programs by BPF_PROG_TEST_RUN with their arguments as context; the tracepoint
 * in the section name only gives them a type, they are never attached.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "resolve.h"

/* Since 6.13 (a992d7a3979120fbd7c13435d27b3da8d9ed095a). */
extern struct kmem_cache *bpf_get_kmem_cache(__u64 address) __ksym __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct resolve_result);
} resolve_result SEC(".maps");

static struct resolve_result *result_slot(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&resolve_result, &key);
}

/* A wrong guess of the layout reads memory that is no run queue of that CPU. */
static __u64 checked_rq(struct rq *rq, __u32 cpu)
{
	if (!rq || (__u32)BPF_CORE_READ(rq, cpu) != cpu)
		return 0;
	return (__u64)rq;
}

/*
 * The run queue of a CPU: the one per-CPU variable that the current task leads
 * to.  Its task group has a cfs_rq on every CPU; where that cannot be followed
 * the collector runs the program on the CPU itself.
 */
SEC("raw_tp/contention_begin")
int resolve_cpu(__u64 *context)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct resolve_result *result = result_slot();
	struct cfs_rq *own = NULL, *other = NULL, **all;
	__u32 cpu = context[0];

	if (!result)
		return 0;
	result->rq = 0;
	result->task = (__u64)task;
	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(own->rq))
		return 0;
	own = BPF_CORE_READ(task, se.cfs_rq);
	if (cpu == bpf_get_smp_processor_id()) {
		result->rq = checked_rq(BPF_CORE_READ(own, rq), cpu);
		return 0;
	}
	all = BPF_CORE_READ(own, tg, cfs_rq);
	if (!bpf_probe_read_kernel(&other, sizeof(other), all + cpu))
		result->rq = checked_rq(BPF_CORE_READ(other, rq), cpu);
	return 0;
}

SEC("raw_tp/contention_begin")
int resolve_slab(__u64 *context)
{
	struct resolve_result *result = result_slot();
	struct kmem_cache *cache;
	struct slab_cache *slab;

	if (!result)
		return 0;
	slab = &result->slab;
	slab->cache = 0;
	if (!bpf_get_kmem_cache)
		return 0;
	cache = bpf_get_kmem_cache(context[0]);
	if (!cache)
		return 0;
	slab->size = BPF_CORE_READ(cache, size);
	slab->object_size = BPF_CORE_READ(cache, object_size);
	slab->order = BPF_CORE_READ(cache, oo.x) >> 16;
	slab->min_order = BPF_CORE_READ(cache, min.x) >> 16;
	slab->references = BPF_CORE_READ(cache, refcount);
	slab->red_left_pad = 0;
	if (bpf_core_field_exists(cache->red_left_pad))
		slab->red_left_pad = BPF_CORE_READ(cache, red_left_pad);
	slab->name[0] = 0;
	bpf_probe_read_kernel_str(slab->name, sizeof(slab->name), BPF_CORE_READ(cache, name));
	slab->cache = (__u64)cache;
	return 0;
}

SEC("raw_tp/contention_begin")
int resolve_read(__u64 *context)
{
	struct resolve_result *result = result_slot();
	__u64 size = context[1];

	if (!result)
		return 0;
	if (size > RESOLVE_BYTES)
		size = RESOLVE_BYTES;
	result->error = bpf_probe_read_kernel(result->bytes, size, (void *)context[0]);
	return 0;
}
