/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sums of memory samples, and all that names and places them: what is to be written. */
#ifndef LOCKLINE_MEMORY_SOURCE_H
#define LOCKLINE_MEMORY_SOURCE_H

#include "memory/memory_problems.h"
#include "memory/memory_rank.h"
#include "memory/memory_symbols.h"
#include "memory/memory_tasks.h"
#include "memory/memory_topology.h"
#include "recording/recording.h"

/* Who knows the locks of a recording; with it the samples are live ones. */
struct memory_locks {
	__s64 (*id)(void *context, __u64 address, __u32 kind); /* of its row, or a negative errno */
	void *context;
};

struct memory_write {
	struct recording *recording;
	const char *kind;   /* of the source: "perf.data" */
	const char *name;   /* the file's; NULL: each event's own PMU */
	const char *events; /* each with its end, an empty one behind the last */
	struct memory_lines *lines;
	const struct memory_tasks *tasks;
	const struct memory_topology *topology;
	const struct memory_symbols *symbols;
	const struct memory_problems *problems;
	__u64 accesses;                        /* to keep, see memory_rank_make() */
	const struct memory_locks *locks;      /* NULL: of an import */
	const struct memory_counts *uncounted; /* samples that are in none of the lines' totals; NULL: none */
};

#endif /* LOCKLINE_MEMORY_SOURCE_H */
