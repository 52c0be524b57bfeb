/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `lockline watch`: cache lines under watchpoints beside a recording of lock waits. */
#ifndef LOCKLINE_COLLECTOR_WATCH_H
#define LOCKLINE_COLLECTOR_WATCH_H

#include "waits/locks.h"
#include "probes/maps.h"
#include "cli/options.h"
#include "probes/probes.h"

struct watch;

/* What it stands on. */
struct watch_base {
	const struct options *options;
	struct probes *probes;
	struct recording *recording;
	struct locks *locks;
	struct lock_names *names;
	const struct symbols *symbols;
	__u32 cpus;
};

/* Before the programs are loaded: with or without it. */
int watch_resize(struct lockline_bpf *bpf, __u32 cpus, bool wanted);
/* Finds the target, and tries a watchpoint there; what cannot be had has been told. */
int watch_open(struct watch **out, const struct watch_base *base);
/* All of these do nothing with NULL. */
int watch_begin(struct watch *watch, __u64 now_ns);
/* Looks at the windows since the last call. */
int watch_drain(struct watch *watch);
/* The end of an interval: writes what was seen; with --auto picks lines. */
int watch_flush(struct watch *watch, __u64 now_ns);
/* Takes the watchpoints away. */
void watch_end(struct watch *watch);
/* A line or two for people. */
void watch_print(const struct watch *watch);
void watch_close(struct watch *watch);

#endif /* LOCKLINE_COLLECTOR_WATCH_H */
