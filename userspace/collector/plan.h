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

#include "names.h"
#include "options.h"

#define PLAN_TEXT    384
#define PLAN_SIGNALS 24
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
	bool tp_btf_contention;     /* lock:contention_begin/end can be attached */
	bool slab_kfunc;            /* bpf_get_kmem_cache is in the kernel's BTF */
	__u32 possible_cpus;
};

/* Looks, attaches nothing, changes nothing, never fails on a missing feature. */
int plan_make(struct plan *plan, const struct options *options, const struct symbols *symbols);

/* A signal of the plan that could not be had after all. */
void plan_give_up(struct plan *plan, const char *signal, const char *why, int err);

/* The value of a fact, or "" */
const char *plan_fact(const struct plan *plan, const char *name);

/* {"schema": "lockline-doctor/1", "host": {fact: value, ...}, "probes": [{...}, ...]} on stdout, made with SQLite's JSON functions. */
int plan_print_json(const struct plan *plan);

#endif /* LOCKLINE_PLAN_H */
