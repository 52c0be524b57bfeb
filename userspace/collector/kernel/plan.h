/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this kernel offers, and what lockline makes of it: for each signal the
 * best source to be had, and what the report cannot tell where there is none.
 * `lockline doctor` prints it, every recording stores it.
 */
#ifndef LOCKLINE_PLAN_H
#define LOCKLINE_PLAN_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/lockline.h"
#include "names/symbols.h"
#include "cli/options.h"
#include "kernel/lock_mode.h"
#include "kernel/pmu.h"
#include "kernel/probe_points.h"
#include "kernel/signals.h"

#define PLAN_FACTS 40

enum probe_state { PROBE_ON, PROBE_OFF, PROBE_UNAVAILABLE, PROBE_BLIND };

extern const char *const probe_state_names[]; /* "on", "off", "unavailable", "blind" */

struct probe {
	enum signal signal;
	enum probe_state state;
	char source[PLAN_TEXT];
	char reason[PLAN_TEXT];
	char lost[PLAN_TEXT];
};

/* One line of the host's description: name as stored in meta, value as text. */
struct fact {
	char name[40];
	char value[PLAN_TEXT];
};

enum lockline_clock { CLOCK_PRECISE, CLOCK_COARSE };

struct plan {
	struct fact facts[PLAN_FACTS];
	int fact_count;
	struct probe probes[SIGNALS];
	int probe_count;
	enum spinlock_mode spinlock_mode;
	enum lockline_clock clock; /* COARSE when the clocksource is shared by all CPUs (hpet, acpi_pm) */
	/* Probes around slow paths, where they see more than the tracepoints and can be had. */
	const char *spin_slow_path; /* function; NULL: not attached */
	bool spin_kprobe;           /* by kprobe, for want of fentry */
	bool paravirt_slow_path;    /* __pv_queued_spin_lock_slowpath() too */
	bool read_slow_path;        /* queued_read_lock_slowpath() */
	bool rwsem_slow_path;       /* RWSEM_SLOW_PATH */
	bool rwsem_kprobe;          /* it by kprobe, for want of fentry */
	bool percpu_slow_path;      /* PERCPU_SLOW_PATH */
	__u32 release_functions;    /* mask of enum release_function that --holders and --holds probe */
	bool release_kprobe;        /* those of spinlocks by kprobe, for want of fentry */
	__u32 context;              /* mask of enum context_probe that --episodes attaches */
	bool inactive_turns;        /* turns of WAIT_INACTIVE's loop */
	bool inactive_calls;        /* the function by fentry */
	bool inactive_kprobe;       /* it by kprobe, for want of fentry */
	bool ptrace_attach;         /* PTRACE_ATTACH_FUNCTION by fentry */
	bool ptrace_attach_kprobe;  /* it by kprobe, for want of fentry */
	const char *clock_read;     /* function that reads the clock device; NULL: not probed */
	bool clock_kprobe;          /* it by kprobe, for want of fentry */
	bool futex;                 /* futex calls, by the tracepoints of the scheduler and of system calls */
	__u32 futex_functions;      /* mask of enum futex_function by fentry, in place of those of system calls */
	bool hitm;                  /* samples of the PMU's memory events */
	struct pmu_plan pmu;        /* which those are */
	bool contended_release;     /* lock:contended_release tells of sleeping locks, and where it can of spinlocks */
	__u64 resilient_text;       /* resilient_queued_spin_lock_slowpath(); 0: none, or not known */
	__u64 resilient_text_size;
	__u64 spin_text[SPIN_TEXTS]; /* the slow paths of ordinary spinlocks; 0: not known, or none */
	__u64 spin_text_size[SPIN_TEXTS];
	bool tp_btf_contention; /* lock:contention_begin/end can be attached */
	bool slab_kfunc;        /* bpf_get_kmem_cache is in the kernel's BTF */
	__u32 possible_cpus;
};

/* What the plan says of a signal; NULL: nothing, as of --c2c's without --c2c. */
const struct probe *plan_probe(const struct plan *plan, enum signal signal);

/* A signal that turned out not to be available. */
void plan_give_up(struct plan *plan, enum signal signal, const char *why, int err);
/* Says on stderr that a signal that was asked for is not available. */
void plan_tell_missing(const struct plan *plan, enum signal signal);

/* One more fact; without room for it none. */
void plan_put_fact(struct plan *plan, const char *name, const char *value);
/* The value of a fact, or "" */
const char *plan_fact(const struct plan *plan, const char *name);

#endif /* LOCKLINE_PLAN_H */
