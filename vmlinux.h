/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel types that bpf/ uses, kept by hand: only the fields that are
 * read, found in the running kernel by CO-RE.  For x86-64 and arm64.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__ /* by this name bpf_tracing.h knows how registers are called */

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;
typedef unsigned int gfp_t;

#define true 1
#define false 0
#define NULL ((void *)0)

/* include/uapi/linux/bpf.h */
enum {
	BPF_F_CURRENT_CPU = 0xffffffffULL,
	BPF_F_USER_STACK = 1ULL << 8,
	BPF_F_SKIP_FIELD_MASK = 0xffULL,
	BPF_F_MMAPABLE = 1U << 10,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/perf_event.h; sample_flags since 6.1. */
union perf_mem_data_src {
	__u64 val;
};

union perf_sample_weight {
	__u64 full;
};

struct perf_sample_data {
	__u64 sample_flags;
	__u64 ip;
	__u64 addr;
	__u64 phys_addr;
	union perf_sample_weight weight;
	union perf_mem_data_src data_src;
};

struct bpf_perf_event_data_kern {
	struct perf_sample_data *data;
};

/* Only their sizes are asked for; a type without members would be a declaration. */
struct mm_struct {
	unsigned long total_vm;
};

struct signal_struct {
	int nr_threads;
};

struct sighand_struct {
	int count;
};

struct files_struct {
	int next_fd;
};

/*
 * First argument of a function, and what it returns: di and ax on x86-64; arm64's programs see user_pt_regs.
 * The rest: the arguments of a system call, and its number, on x86-64, then on arm64.
 */
struct pt_regs {
	unsigned long di;
	unsigned long ax;
	unsigned long si;
	unsigned long dx;
	unsigned long r10;
	unsigned long r8;
	unsigned long bx; /* of 32-bit calls: this, cx, dx, si and di */
	unsigned long cx;
	unsigned long orig_ax;
	unsigned long r9;
	unsigned long r11;
	unsigned long r12;
	unsigned long r13;
	unsigned long r14;
	unsigned long r15;
	unsigned long bp;
	unsigned long ip;
	unsigned long sp; /* the last of x86-64 */
	__u64 regs[31];
	__u64 pc;
	__u64 orig_x0;
	__s32 syscallno;
};

struct user_pt_regs {
	__u64 regs[31];
};

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long counter;
} atomic_long_t;

struct qspinlock {
	atomic_t val;
};

struct raw_spinlock {
	struct qspinlock raw_lock;
};

struct qrwlock {
	atomic_t cnts;
	struct qspinlock wait_lock;
};

typedef struct {
	struct qrwlock raw_lock;
} rwlock_t;

struct rt_mutex_base {
	struct task_struct *owner;
};

/* PREEMPT_RT has rtmutex, other kernels owner. */
struct mutex {
	atomic_long_t owner;
	struct rt_mutex_base rtmutex;
};

struct rwbase_rt {
	struct rt_mutex_base rtmutex;
};

struct rw_semaphore {
	atomic_long_t count;
	atomic_long_t owner;
	struct rwbase_rt rwbase;
};

struct spinlock {
	struct rt_mutex_base lock;
};

/* Its chain and the rest are of no use here. */
struct futex_hash_bucket {
	atomic_t waiters;
	struct spinlock lock;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};

struct rt_rq {
	int rt_throttled;
};

struct rq {
	struct rt_rq rt;
	int cpu;
};

struct irqaction {
	const char *name;
};

struct task_group {
	struct cfs_rq **cfs_rq;
};

struct cfs_rq {
	int throttle_count;
	struct rq *rq;
	struct task_group *tg;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct kmem_cache_order_objects {
	unsigned int x;
};

struct kmem_cache {
	unsigned int size;
	unsigned int object_size;
	struct kmem_cache_order_objects oo;
	struct kmem_cache_order_objects min;
	int refcount;
	unsigned int red_left_pad;
	const char *name;
};

struct thread_info {
	unsigned long flags;
	__u32 status;
};

struct cpumask {
	unsigned long bits[1];
};

struct task_struct {
	void *stack;
	struct thread_info thread_info;
	struct sched_entity se;
	bool throttled;
	int wake_cpu;
	int prio;
	unsigned int policy;
	unsigned int ptrace;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_time;
	__u64 self_exec_id;
	char comm[16];
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct files_struct *files;
	struct css_set *cgroups;
};

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

struct bpf_iter_meta {
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#endif /* __VMLINUX_H__ */
