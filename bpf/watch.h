/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the program behind the watchpoints (lockline watch) shares with the collector. */
#ifndef LOCKLINE_WATCH_H
#define LOCKLINE_WATCH_H

#include "lockline.h"

#define WATCH_RING      2048 /* records per CPU; more than it can write in WATCH_SLICE_NS */
#define WATCH_REGISTERS 32
#define WATCH_NO_KIND   0xff

#define WATCH_INTERRUPTS_OFF (1u << 0)
#define WATCH_USER           (1u << 1) /* the instruction is user space's */
#define WATCH_WROTE          (1u << 2) /* by the watchpoint for writes alone */
#define WATCH_AT_SI          (1u << 4) /* x86-64: si, di are in the line, or just beside it */
#define WATCH_AT_DI          (1u << 5)
#define WATCH_ONLY_READ      (1u << 3) /* set by the collector: that watchpoint was not hit */

/* An access.  The low bytes of the registers tell where in the line it was. */
struct watch_record {
	__u64 sequence; /* as in struct wait_event */
	__u64 ns;
	__u64 ip;   /* x86-64: behind the instruction; arm64: of it */
	__u64 lock; /* that is waited for on this CPU, or by this task; 0: none */
	__u32 tid;
	__u32 tgid;
	__u8 kind;    /* of that wait; WATCH_NO_KIND: none */
	__u8 flags;   /* WATCH_* */
	__u16 offset; /* of the watched bytes in the line */
	__u32 cpu;
	char comm[16];
	/* x86-64: as instructions number them, ax cx dx bx sp bp si di r8 .. r15; arm64: x0 .. x30, sp. */
	__u8 registers[WATCH_REGISTERS];
};

/* One per CPU, written by it alone. */
struct watch_state {
	__u64 records; /* ever started in this CPU's ring */
	__u64 others;  /* hits by processes that were not asked for */
	__u64 pad[6];
};

/* Written by the collector between windows. */
struct watch_target {
	__u32 tgid; /* whose accesses count; 0: everybody's */
	__u32 tid;  /* of the task that is looked for */
	__u64 task; /* its task_struct, or 0 */
	__u64 pad[6];
};

_Static_assert(sizeof(struct watch_record) == 96, "record");
_Static_assert(WATCH_RING * sizeof(struct watch_record) % CACHE_LINE == 0, "rings share no line");
_Static_assert(sizeof(struct watch_state) == CACHE_LINE, "CPUs share no line");
_Static_assert(sizeof(struct watch_target) == CACHE_LINE, "the target shares no line");

#endif /* LOCKLINE_WATCH_H */
