/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What was found on this machine, before anything is made of it: plan_make.c turns
 * it into a plan without looking anywhere else, so that a test can make up
 * any machine.
 */
#ifndef LOCKLINE_EVIDENCE_H
#define LOCKLINE_EVIDENCE_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/lockline.h"
#include "kernel/lock_mode.h"
#include "names/symbols.h"
#include "cli/options.h"
#include "kernel/pmu.h"
#include "kernel/probe_points.h"

enum symbol_table { SYMBOLS_NONE, SYMBOLS_HIDDEN, SYMBOLS_TEXT, SYMBOLS_ALL };

enum cgroup_layout { CGROUP_NONE, CGROUP_V1, CGROUP_HYBRID, CGROUP_V2 };

/* Of the _error fields: 0 works, negative errno: refused, NOT_TRIED: only the doctor tries it. */
#define NOT_TRIED 1

struct types;

struct evidence {
	bool user_stacks;  /* asked for */
	bool holders;      /* asked for */
	bool holds;        /* asked for */
	bool episodes;     /* asked for */
	bool futex;        /* asked for */
	bool ptrace;       /* asked for */
	bool clock_reads;  /* asked for */
	bool hitm;         /* asked for */
	bool follow_forks; /* asked for: processes, or a command */
	struct lock_mode_evidence lock;
	char hypervisor[13]; /* CPUID's signature */

	int btf_error;
	bool btf_contention;         /* lock:contention_begin and contention_end */
	bool btf_fork;               /* sched:sched_process_fork */
	bool btf_release;            /* lock:contended_release */
	bool spin_release;           /* SPIN_RELEASE: queued spinlocks pass it too */
	bool rw_release;             /* RW_RELEASE: queued rwlocks likewise */
	bool btf_wait_task;          /* sched:sched_wait_task */
	bool btf_wait_inactive;      /* WAIT_INACTIVE */
	bool btf_ptrace_attach;      /* PTRACE_ATTACH_FUNCTION */
	bool btf_clock_read;         /* clock_read_function() of the clocksource */
	bool cycle_counter;          /* the event source msr */
	bool btf_futex;              /* the tracepoints of --futex */
	__u32 btf_futex_functions;   /* mask of enum futex_function */
	__u32 futex_functions;       /* the same, of what the kernel has a symbol of */
	bool btf_percpu;             /* the variable `runqueues` */
	bool btf_slab;               /* bpf_get_kmem_cache() */
	bool btf_slab_pages;         /* what marks a page of a slab */
	bool btf_native_slow_path;   /* native_queued_spin_lock_slowpath(): x86 with PARAVIRT_SPINLOCKS */
	bool btf_paravirt_slow_path; /* __pv_queued_spin_lock_slowpath() */
	bool btf_queued_slow_path;   /* queued_spin_lock_slowpath(): arm64, x86 without PARAVIRT_SPINLOCKS */
	bool btf_read_slow_path;     /* queued_read_lock_slowpath() */
	bool btf_rwsem_slow_path;    /* RWSEM_SLOW_PATH */
	bool btf_percpu_slow_path;   /* PERCPU_SLOW_PATH */
	bool btf_resilient;          /* struct rqspinlock */
	__u64 resilient_text;        /* resilient_queued_spin_lock_slowpath(); 0: not known */
	__u64 resilient_text_size;
	__u64 spin_text[SPIN_TEXTS]; /* the slow paths of ordinary spinlocks; 0: not known, or none */
	__u64 spin_text_size[SPIN_TEXTS];
	__u32 btf_release_functions; /* mask of enum release_function */
	__u32 btf_context;           /* mask of enum context_probe */
	int load_error;              /* an empty program for lock:contention_begin */
	int statistics_error;
	int fentry_error; /* an empty program, attached to a function that nothing calls */
	bool kprobe_source;

	enum symbol_table symbols;
	bool page_table; /* it can be found: by variables, or on arm64 by a guess that is checked */
	enum cgroup_layout cgroup;
	char clocksource[64];
	struct pmu_plan pmu;     /* memory events of the PMUs */
	bool btf_kernel_context; /* bpf_cast_to_kern_ctx() */
	bool breakpoint_source;
	int breakpoint_error;
	int breakpoints; /* that one thread can have at once, if breakpoint_error is 0 */
};

/*
 * thorough (for the doctor): also tries what takes a moment of kernel text
 * patching, and undoes it at once.
 */
void evidence_collect(struct evidence *evidence, const struct options *options, const struct symbols *symbols,
		      struct types **types, bool thorough);

#endif /* LOCKLINE_EVIDENCE_H */
