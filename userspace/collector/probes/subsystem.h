/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a subsystem is to the rest: its programs, its share of the memory, and what it does at each moment of a
 * recording.  session/subsystems.c lists them; whoever walks that list names none of them.
 */
#ifndef LOCKLINE_SUBSYSTEM_H
#define LOCKLINE_SUBSYSTEM_H

#include <stdbool.h>
#include <sys/types.h>
#include <linux/types.h>

#include "cli/options.h"
#include "kernel/plan.h"
#include "probes/sizing.h"

struct bpf_program;
struct cgroup_paths;
struct containers;
struct events;
struct flight;
struct holders;
struct lock_filter;
struct lock_names;
struct lockline_bpf;
struct locks;
struct probes;
struct recording;
struct stacks;
struct symbols;
struct types;

/* What a recording offers its subsystems; some add to it what those below them in the list need. */
struct ground {
	const struct options *options;
	struct plan *plan;
	const struct sizing *sizing;
	struct probes *probes;
	const struct lock_filter *lock_filter; /* -L and -S */
	struct recording *recording;
	const struct symbols *symbols;
	const struct types *types;
	struct lock_names *names;
	struct cgroup_paths *cgroups;
	struct containers *containers;
	const struct stacks *stacks;
	struct flight *flight;
	struct locks *locks;     /* by waits */
	struct events *events;   /* by waits */
	struct holders *holders; /* by holders; NULL without --holders */
	/* Of the moment: */
	__s64 interval;      /* whose figures these are; NO_INTERVAL: a flight keeps totals alone */
	__s64 wait_interval; /* the same for waits one by one */
	__u64 begin_ns;      /* of the recording */
	__u64 stop_ns;       /* when new waits were no longer let in; 0: they are */
	bool last;           /* this is the last interval */
	pid_t command;       /* COMMAND's process, once there is one */
	__u64 open_waits;    /* by waits, at the end of an interval */
	__u64 commit_ns;     /* CPU time of the last commit */
	int hurry_fd;        /* readable when the rings of MOMENT_HURRY fill; -1: they are to be looked at */
	/* To be called in the midst of what takes long: reads the rings. */
	int (*pause)(void *context);
	void *pause_context;
};

/* A program, when it is wanted, and what it looks at. */
struct choice {
	struct bpf_program *program;
	bool wanted;
	enum signal signal;
	const char *target; /* function; NULL: as in the object */
};

/* When a subsystem can be opened. */
enum stage {
	STAGE_LOADED,   /* programs are loaded, nothing runs */
	STAGE_PREPARED, /* right before programs are attached */
	STAGE_ATTACHED, /* programs run, no wait is let in */
	STAGES
};

enum moment {
	MOMENT_BEGIN,   /* waits are let in: what began before */
	MOMENT_START,   /* all is set up; COMMAND runs next */
	MOMENT_COMMAND, /* its program is in memory, and has not begun */
	MOMENT_HURRY,   /* rings that can fill in 10 ms */
	MOMENT_DRAIN,   /* rings that fill in 50 ms */
	MOMENT_ASIDE,   /* while the file is written: nothing may be put into it, and rings are copied aside */
	MOMENT_LONG,    /* an interval's end: what takes long, and reads the rings meanwhile by pause() */
	MOMENT_FLUSH,   /* then the figures of the interval */
	MOMENT_WAITS,   /* then what was seen of waits one by one */
	MOMENT_COMMIT,  /* the interval is in the file */
	MOMENT_PRINT,   /* the recording is over: a line for people */
	MOMENT_FINISH,  /* before the file is closed */
	MOMENTS
};

struct subsystem {
	const char *name;
	/* Its share of the memory, if it is of this recording; plan: NULL if every signal is taken as available. */
	const struct size_part *sizes;
	bool (*sized)(const struct options *options, const struct plan *plan);
	/* Whether stacks of user space are to get names for its sake. */
	bool (*names_user_code)(const struct plan *plan);
	/* Appends its programs in the order of attaching, ends before begins; returns the new count. */
	int (*choices)(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count);
	/* Before the programs are loaded: constants, sizes of maps, what is loaded at all. */
	int (*configure)(struct lockline_bpf *bpf, const struct ground *ground);
	/* *state stays NULL if it is not of this recording; it is called at no moment then. */
	int (*open[STAGES])(struct ground *ground, void **state);
	int (*at[MOMENTS])(void *state, struct ground *ground);
	/* No sample after this; programs are still attached. */
	void (*end)(void *state);
	void (*close)(void *state);
};

#endif /* LOCKLINE_SUBSYSTEM_H */
