/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The programs of a recording: configured, loaded, attached in an order that loses no end. */
#ifndef LOCKLINE_PROBES_H
#define LOCKLINE_PROBES_H

#include <stdbool.h>
#include <linux/types.h>

#include "names/cgroups.h"
#include "probes/maps.h"
#include "cli/options.h"
#include "probes/own_cost.h"
#include "kernel/plan.h"
#include "probes/sizing.h"

#define PROBE_PROGRAMS 96

struct bpf_link;
struct bpf_program;
struct lockline_bpf;

/* A program, when it is wanted, and what it looks at. */
struct choice {
	struct bpf_program *program;
	bool wanted;
	enum signal signal;
	const char *target; /* function; NULL: as in the object */
};

/* A program is loaded if any of its choices wants it: a kprobe program stands in one for each function. */
static inline bool program_wanted(const struct choice *choices, int count, const struct bpf_program *program)
{
	for (int i = 0; i < count; i++)
		if (choices[i].program == program && choices[i].wanted)
			return true;
	return false;
}

/* An attachment; a kprobe program can have several. */
struct attached {
	struct choice choice;
	struct bpf_link *link;
};

struct probes {
	struct lockline_bpf *bpf;
	struct maps maps;
	struct attached attached[PROBE_PROGRAMS]; /* in this order; detached in the reverse */
	int attached_count;
	struct own_program programs[PROBE_PROGRAMS]; /* each once */
	int program_count;
};

/* release_probes.c: appends the programs of --holders and --holds; returns the new count. */
int release_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count);

/* context_probes.c: the same with those of --episodes. */
int context_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count);
/* signal_probes.c: those of --futex, --ptrace and --clocksource. */
int signal_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count);

/*
 * Loads and maps; nothing runs yet.  cgroup: NULL without -G; hierarchy: of the
 * waiters' cgroups, a subsys_id or CGROUP_HIERARCHY_V2.  A refusal has been told.
 */
int probes_load(struct probes *probes, const struct options *options, const struct plan *plan,
		const struct sizing *sizing, const struct cgroup_target *cgroup, int hierarchy);
/* Lets a process, and what it forks, through the task filter. */
void probes_follow(struct probes *probes, __u32 tgid);
bool probes_followed(const struct probes *probes, __u32 tgid);
/* A program that cannot be attached fails the run only for the lock waits themselves; the plan is told of others. */
int probes_attach(struct probes *probes, struct plan *plan);
/*
 * Lets waits in.  Attached programs count them as filtered until then: where functions are
 * probed attaching takes seconds, and the recording's window is to be exact.
 */
void probes_start(struct probes *probes, const struct options *options, __u32 cpus);
/* Lets no new wait in; those in flight still end. */
void probes_stop(struct probes *probes, __u32 cpus);
/* One of them, by itself; negative errno. */
int probes_attach_one(struct attached *attached);
/* Begins first: the waits in flight may still end. */
void probes_detach(struct probes *probes);
void probes_close(struct probes *probes);

/* What the probes of unlocks do in a short window before the recording begins. */
struct release_cost {
	__u64 window_ns;
	__u64 runs;
	__u64 run_ns; /* in the programs alone, with the measurement's own 30 ns or so */
};

int release_cost(const struct probes *probes, struct release_cost *cost);
/* To the person who waits: err is what release_cost() returned. */
void release_cost_tell(const struct release_cost *cost, int err, bool holds, long cpus);

#endif /* LOCKLINE_PROBES_H */
