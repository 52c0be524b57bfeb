/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sums of memory samples into the memory_* tables of a recording, once; memory_update.h does it as they grow. */
#ifndef LOCKLINE_MEMORY_WRITE_H
#define LOCKLINE_MEMORY_WRITE_H

#include "memory/memory_problems.h"
#include "memory/memory_rank.h"
#include "memory/memory_symbols.h"
#include "memory/memory_tasks.h"
#include "perfdata/perfdata_features.h"
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
	const struct perfdata_features *features; /* topology */
	const struct memory_symbols *symbols;
	const struct memory_problems *problems;
	__u64 accesses;                        /* to keep, see memory_rank_make() */
	const struct memory_locks *locks;      /* NULL: of an import */
	const struct memory_counts *uncounted; /* samples that are in none of the lines' totals; NULL: none */
};

/* Frees what it does not need any more: lines cannot be added to afterwards. */
int memory_write(const struct memory_write *write, struct memory_rank *rank);

#endif /* LOCKLINE_MEMORY_WRITE_H */
