/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory samples summed by cache line, offset and instruction, and the threads of
 * each: lines are distinguished as by sort__dcacheline_cmp() of
 * tools/perf/util/sort.c, Linux 6.12.
 */
#ifndef LOCKLINE_MEMORY_LINES_H
#define LOCKLINE_MEMORY_LINES_H

#include <stdbool.h>
#include <linux/types.h>

#include "memory/memory_access.h"
#include "memory/memory_kind.h"
#include "memory/memory_maps.h"
#include "memory/memory_sample.h"

struct memory_line {
	__u64 unit;          /* address as the object has it, of the line's first byte */
	__u64 address;       /* of the first sample */
	__u64 page;          /* physical, of the first sample that has one; 0: none */
	__u64 static_unit;   /* the same as unit in static_object */
	__u32 object;        /* MEMORY_NO_OBJECT: not mapped */
	__u32 static_object; /* whose variables may be there; MEMORY_NO_OBJECT: none */
	__u32 group;         /* part of the key, see struct memory_object */
	__u32 pid;           /* 0: the key has none */
	/* Of memory_lines_sum(). */
	__u32 samples;
	__u32 snoops; /* HITM and peer */
	__u32 waits;  /* fill buffer hits */
	__u32 thread; /* of one of them */
	__u16 cpu;    /* of one that tells */
	bool several; /* threads or CPUs */
	bool stores;
	/* Of the samples themselves. */
	__u8 cpumode;
	bool pages; /* more than one: the others are in the set */
};

struct memory_code {
	__u64 address;
	__u64 unit; /* address as the object has it */
	__u32 object;
	__u8 cpumode;
};

struct memory_page {
	__u64 page;
	__u32 line;
};

/* Samples of a line that were taken while one lock was waited for. */
struct memory_wait {
	__u64 lock;
	__u32 line;
	__u32 kind; /* enum lock_kind */
	__u64 records;
	__u64 transfers; /* HITM and peer */
};

/*
 * What access a sample of this address and instruction adds to: most samples are
 * of few, and need neither mappings nor keys to be looked up.
 */
struct memory_known {
	__u64 address;
	__u64 ip;
	const struct memory_space *space;
	__u32 state;  /* cpumode, whether it is mapped, and how often mappings had changed */
	__u32 access; /* the number + 1; 0: none */
};

#define MEMORY_KNOWN_BITS 15

/* A sample on its way: what is looked up for one is fetched from memory while others are worked on. */
struct memory_waiting {
	struct memory_access access;
	__u64 page;
	__u64 lock;
	__u32 wait_kind;
	__u32 access_number; /* the number + 1 of the access that it likely adds to; 0: a new one */
	__u32 place;         /* in known */
	bool refused;
	__u32 line_hash;
	__u32 access_hash; /* of one that has a line */
	struct memory_known known;
	struct memory_line line;
};

#define MEMORY_WAITING     16
#define MEMORY_RECENT_BITS 8

struct memory_lines {
	__u32 line_size;
	struct memory_waiting waiting[MEMORY_WAITING];
	__u32 waiting_count;
	struct memory_known *known; /* by a hash, each in the place of the one before; NULL: no room */
	struct memory_line *lines;
	__u32 line_count;
	__u32 line_capacity;
	struct hash_index line_index;
	struct memory_code *codes;
	__u32 code_count;
	__u32 code_capacity;
	struct hash_index code_index;
	struct memory_access *accesses;
	__u32 access_count;
	__u32 access_capacity;
	struct hash_index access_index;
	struct memory_page *pages; /* of lines with several */
	__u32 page_count;
	__u32 page_capacity;
	struct hash_index page_index;
	struct memory_wait *waits;
	__u32 wait_count;
	__u32 wait_capacity;
	struct hash_index wait_index;
	struct memory_counts totals;
	struct {
		__u64 data_src;
		__u64 count;
		__u32 kind;
		__u32 how;                 /* whether it is mapped, and has an address */
	} recent[1 << MEMORY_RECENT_BITS]; /* totals to come */
	__u64 refused;                     /* samples of lines beyond the budget */
	__u64 bad_cpus;
	__u64 without_cpu;
	struct memory_budget *budget;
};

void memory_lines_open(struct memory_lines *lines, __u32 line_size, struct memory_budget *budget);
void memory_lines_close(struct memory_lines *lines);
/* space: of the data, for what is mapped below it; NULL: none. */
int memory_lines_add(struct memory_lines *lines, const struct memory_sample *sample, __u32 thread,
		     const struct memory_objects *objects, const struct memory_space *space);
/*
 * What memory_lines_add() will look at for a sample that comes soon is fetched
 * from memory, where that is of use, in four steps.  Each needs what the one
 * before has fetched, so that some samples should be worked on between two of
 * them.  access: what the second step gives, 0: it is not known.
 */
bool memory_lines_need_fetching(const struct memory_lines *lines);
void memory_lines_fetch(const struct memory_lines *lines, const struct memory_sample *sample);
__u32 memory_lines_fetch_access(const struct memory_lines *lines, const struct memory_sample *sample);
void memory_lines_fetch_more(const struct memory_lines *lines, __u32 access);
void memory_lines_fetch_counts(const struct memory_lines *lines, __u32 access, __u32 thread, __u32 cpu);
/* After the last sample: all of them are in the sums. */
int memory_lines_finish(struct memory_lines *lines);
/* The sums of each line, of what its accesses have now. */
void memory_lines_sum(struct memory_lines *lines);
/* Frees what is only needed to add samples. */
void memory_lines_drop_indexes(struct memory_lines *lines);

#endif /* LOCKLINE_MEMORY_LINES_H */
