/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the memory budget is divided, as a pure function of CPUs, budget and what takes a part: each subsystem says
 * itself what it needs.
 */
#ifndef LOCKLINE_SIZING_H
#define LOCKLINE_SIZING_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct sizing {
	__u32 cpus;
	__u32 named_rows;      /* per CPU, without the KIND_COUNT rows of unnamed locks */
	__u32 rows;            /* per CPU, with them */
	__u32 ring_events;     /* per CPU; power of two */
	__u32 sleep_slots;     /* power of two */
	__u32 ring_holdings;   /* per CPU; power of two; 0 without --holders */
	__u32 ring_context;    /* per CPU; power of two; 0 without --episodes */
	__u32 ring_samples;    /* per CPU; 0 without --hitm */
	__u32 locks;           /* (lock, kind) pairs with totals in the collector */
	__u32 futex_rows;      /* per CPU; 0 without --futex */
	__u32 futex_slots;     /* of tasks in a futex call; power of two; 0 without --futex */
	__u32 futexes;         /* that the collector knows; power of two; 0 without --futex */
	__u32 stack_bytes;     /* of one struct wait_stack, with or without its user half */
	__u32 event_bytes;     /* of one struct wait_event */
	__u64 map_bytes;       /* kernel arrays */
	__u64 last_read_bytes; /* the collector's copies of the rows */
	__u64 lock_bytes;      /* the collector's totals by lock */
	__u64 futex_bytes;     /* kernel arrays and the collector's, of --futex */
	__u64 total_bytes;
	__u64 budget_bytes;
};

#define MEMORY_DEFAULT (64ull << 20)

struct sizing_wish;

/* Something whose number the budget decides: eighths of the budget buy it, a power of two. */
struct sized {
	size_t at; /* of its number in struct sizing, a __u32 */
	__u32 least;
	__u32 most;
	bool per_cpu;
	__u32 (*bytes)(const struct sizing *sizing); /* of one */
	__u32 eighths;                               /* 0: one */
	/* More than so many are no use; NULL: the more the better. */
	__u32 (*enough)(const struct sizing_wish *wish);
};

#define SIZED_MOST 3

/* What one subsystem has in memory. */
struct size_part {
	struct sized sized[SIZED_MOST]; /* up to the first without bytes */
	/* Adds what all of it takes to the sums of sizing. */
	void (*add)(struct sizing *sizing);
};

struct sizing_wish {
	__u64 budget; /* 0: the default, or what the CPUs need with some rows to spare */
	bool user_stacks;
	__u32 threads; /* of the machine */
	const struct size_part *const *parts;
	int part_count;
};

/* -ENOSPC if the budget cannot hold the least of each; *need is then what would do. */
int sizing_make(struct sizing *out, __u32 cpus, const struct sizing_wish *wish, __u64 *need);

#endif /* LOCKLINE_SIZING_H */
