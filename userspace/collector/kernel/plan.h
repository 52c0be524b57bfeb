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

#include "names/names.h"
#include "cli/options.h"
#include "kernel/pmu.h"

#define PLAN_TEXT    384
#define PLAN_SIGNALS 48
#define PLAN_FACTS   40

enum probe_state { PROBE_ON, PROBE_OFF, PROBE_UNAVAILABLE, PROBE_BLIND };

extern const char *const probe_state_names[]; /* "on", "off", "unavailable", "blind" */

struct probe {
	char signal[40]; /* "lock waits", "spinlock first waiter", "slab lock names", ... */
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

enum spinlock_mode { SPINLOCK_UNKNOWN, SPINLOCK_NATIVE, SPINLOCK_PARAVIRT, SPINLOCK_TEST_AND_SET, SPINLOCK_RT_NATIVE };

enum lockline_clock { CLOCK_PRECISE, CLOCK_COARSE };

/* What is probed for --holders and --holds, as far as the kernel has it in BTF. */
enum release_function {
	UNLOCK_SPIN,
	UNLOCK_SPIN_IRQRESTORE,
	UNLOCK_SPIN_IRQ,
	UNLOCK_SPIN_BH,
	UNLOCK_READ,
	UNLOCK_READ_IRQRESTORE,
	UNLOCK_READ_IRQ,
	UNLOCK_READ_BH,
	UNLOCK_WRITE,
	UNLOCK_WRITE_IRQRESTORE,
	UNLOCK_WRITE_IRQ,
	UNLOCK_WRITE_BH,
	UNLOCK_MUTEX,
	UNLOCK_RWSEM_WRITE,
	UNLOCK_RWSEM_READ,
	UNLOCK_RT_SPIN,
	LOCK_SPIN,
	LOCK_SPIN_IRQSAVE,
	LOCK_SPIN_IRQ,
	LOCK_SPIN_BH,
	LOCK_SPIN_TRY,
	RELEASE_FUNCTIONS
};

#define SPIN_UNLOCKS ((1u << (UNLOCK_SPIN_BH + 1)) - 1)
#define RW_UNLOCKS   (((1u << (UNLOCK_WRITE_BH + 1)) - 1) & ~SPIN_UNLOCKS)
#define SLEEPING_UNLOCKS \
	(1u << UNLOCK_MUTEX | 1u << UNLOCK_RWSEM_WRITE | 1u << UNLOCK_RWSEM_READ | 1u << UNLOCK_RT_SPIN)
#define SPIN_LOCKS (((1u << RELEASE_FUNCTIONS) - 1) & ~((1u << LOCK_SPIN) - 1))

extern const char *const release_function_names[RELEASE_FUNCTIONS];

/* Tracepoints of --episodes. */
enum context_probe {
	PROBE_INTERRUPT_ENTRY,
	PROBE_INTERRUPT_EXIT,
	PROBE_LOCAL_TIMER_ENTRY,
	PROBE_LOCAL_TIMER_EXIT,
	PROBE_RESCHEDULE_ENTRY,
	PROBE_RESCHEDULE_EXIT,
	PROBE_CALL_FUNCTION_ENTRY,
	PROBE_CALL_FUNCTION_EXIT,
	PROBE_CALL_FUNCTION_SINGLE_ENTRY,
	PROBE_CALL_FUNCTION_SINGLE_EXIT,
	PROBE_IRQ_WORK_ENTRY,
	PROBE_IRQ_WORK_EXIT,
	PROBE_IPI_ENTRY,
	PROBE_IPI_EXIT,
	PROBE_IPI_SENT,
	PROBE_IPIS_SENT,
	PROBE_IPIS_RAISED,
	PROBE_SOFTIRQ_ENTRY,
	PROBE_SOFTIRQ_EXIT,
	PROBE_SWITCH,
	PROBE_WAKING,
	PROBE_WAKEUP,
	PROBE_WAIT_TASK,
	CONTEXT_PROBES
};

#define CONTEXT_INTERRUPTS     (1u << PROBE_INTERRUPT_ENTRY | 1u << PROBE_INTERRUPT_EXIT)
#define CONTEXT_VECTORS_MASK   (((1u << (PROBE_IRQ_WORK_EXIT + 1)) - 1) & ~((1u << PROBE_LOCAL_TIMER_ENTRY) - 1))
#define CONTEXT_IPIS           (1u << PROBE_IPI_ENTRY | 1u << PROBE_IPI_EXIT)
#define CONTEXT_IPIS_SENT_MASK (1u << PROBE_IPI_SENT | 1u << PROBE_IPIS_SENT | 1u << PROBE_IPIS_RAISED)
#define CONTEXT_SOFTIRQS       (1u << PROBE_SOFTIRQ_ENTRY | 1u << PROBE_SOFTIRQ_EXIT)
#define CONTEXT_WAKES          (1u << PROBE_WAKING | 1u << PROBE_WAKEUP)

extern const char *const context_tracepoints[CONTEXT_PROBES];

/* Of writers. */
#define RWSEM_SLOW_PATH  "rwsem_down_write_slowpath"
#define PERCPU_SLOW_PATH "percpu_down_write"

#define WAIT_INACTIVE          "wait_task_inactive"
#define PTRACE_ATTACH_FUNCTION "ptrace_attach"

#define HITM_SIGNAL "memory samples (HITM)"

/* What reads a clocksource that all CPUs share; NULL: none such. */
const char *clock_read_function(const char *clocksource);

struct cpu_pairs;

struct plan {
	struct fact facts[PLAN_FACTS];
	int fact_count;
	struct probe probes[PLAN_SIGNALS];
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
	bool futex;                 /* futex calls, by the tracepoints of system calls and of the scheduler */
	bool hitm;                  /* samples of the PMU's memory events */
	struct pmu_plan pmu;        /* which those are */
	bool contended_release;     /* lock:contended_release tells of sleeping locks */
	__u64 resilient_text;       /* resilient_queued_spin_lock_slowpath(); 0: none, or not known */
	__u64 resilient_text_size;
	bool tp_btf_contention; /* lock:contention_begin/end can be attached */
	bool slab_kfunc;        /* bpf_get_kmem_cache is in the kernel's BTF */
	__u32 possible_cpus;
};

/* Looks, attaches nothing, changes nothing, never fails on a missing feature. */
int plan_make(struct plan *plan, const struct options *options, const struct symbols *symbols);

/* A signal of the plan that could not be had after all. */
void plan_give_up(struct plan *plan, const char *signal, const char *why, int err);

/* The value of a fact, or "" */
const char *plan_fact(const struct plan *plan, const char *name);

/* lockline-doctor/1 on stdout, made with SQLite's JSON functions; pairs: NULL without --deep.  See docs/doctor.md. */
int plan_print_json(const struct plan *plan, const struct cpu_pairs *pairs);

#endif /* LOCKLINE_PLAN_H */
