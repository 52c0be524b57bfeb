/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The programs of a recording: configured, loaded, attached in an order that loses no end. */
#ifndef LOCKLINE_PROBES_H
#define LOCKLINE_PROBES_H

#include <stdbool.h>
#include <linux/types.h>

#include "containers/cgroups.h"
#include "probes/maps.h"
#include "cli/options.h"
#include "probes/own_cost.h"
#include "kernel/plan.h"
#include "probes/sizing.h"
#include "probes/subsystem.h"

#define PROBE_PROGRAMS 128

struct bpf_link;
struct bpf_program;
struct lockline_bpf;

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
	__u64 misses_before; /* of this link to a kprobe, when the recording began */
	__u64 misses_past;   /* of earlier links */
	__u64 misses;        /* of all, since the recording began */
	bool uncounted;      /* a kprobe whose misses this kernel does not tell */
};

struct probes {
	struct lockline_bpf *bpf;
	struct maps maps;
	struct attached attached[PROBE_PROGRAMS]; /* in this order; detached in the reverse */
	int attached_count;
	struct own_program programs[PROBE_PROGRAMS]; /* each once */
	int program_count;
};

/*
 * Loads and maps the programs of the subsystems into ground->probes; nothing runs yet.  cgroup: NULL without -G; hierarchy: of the
 * waiters' cgroups, a subsys_id or CGROUP_HIERARCHY_V2.  A refusal has been told.
 */
int probes_load(const struct ground *ground, const struct subsystem *const *subsystems, int count,
		const struct cgroup_target *cgroup, int hierarchy);
/* Lets a process, and what it forks, through the task filter. */
void probes_follow(struct probes *probes, __u32 tgid);
bool probes_followed(const struct probes *probes, __u32 tgid);
/* A program that cannot be attached fails the run only for the lock waits themselves; the plan notes others. */
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
/* Reads what kprobes missed: before they are detached, and before the next two are asked. */
void probes_read_misses(struct probes *probes);
/* Hits of a program's kprobes since probes_start() that ran no program; see kprobe_misses.h. */
__u64 probes_misses(const struct probes *probes, const char *program);
/* Programs whose skipped runs this kernel does not count. */
__u32 probes_uncounted(const struct probes *probes);
/* Begins first: the waits in flight may still end. */
void probes_detach(struct probes *probes);
void probes_close(struct probes *probes);

#endif /* LOCKLINE_PROBES_H */
