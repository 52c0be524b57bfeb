/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract between the BPF programs and user space: every structure that
 * both sides touch, and nothing else.  Fixed-width types only; the asserts pin
 * the sizes, because the collector maps these arrays and reads them while the
 * kernel writes.
 */
#ifndef LOCKLINE_H
#define LOCKLINE_H

#ifndef __BPF__
#include <linux/types.h>
#endif
#include <stddef.h>

#define CACHE_LINE 64

/* What was waited for.  The flags of lock:contention_begin in the field's words. */
enum lock_kind {
	KIND_SPINLOCK,
	KIND_RWLOCK_READ,
	KIND_RWLOCK_WRITE,
	KIND_MUTEX,      /* the waiter slept */
	KIND_MUTEX_SPIN, /* the waiter got it by optimistic spinning alone */
	KIND_RWSEM_READ,
	KIND_RWSEM_WRITE,
	KIND_RTMUTEX, /* with PREEMPT_RT also spinlock_t */
	KIND_RWLOCK_RT_READ,
	KIND_RWLOCK_RT_WRITE,
	KIND_PERCPU_RWSEM_READ,
	KIND_PERCPU_RWSEM_WRITE,
	KIND_SEMAPHORE,
	KIND_UNKNOWN,    /* flags that this version does not know */
	KIND_RQSPINLOCK, /* BPF's own, since 6.15; told from spinlocks by the function that waits */
	KIND_END,
	KIND_COUNT = 16
};

/* include/trace/events/lock.h, unchanged from 5.19 to 7.2 */
#define CONTENTION_SPIN   (1u << 0)
#define CONTENTION_READ   (1u << 1)
#define CONTENTION_WRITE  (1u << 2)
#define CONTENTION_RT     (1u << 3)
#define CONTENTION_PERCPU (1u << 4)
#define CONTENTION_MUTEX  (1u << 5)

/*
 * Histogram: bucket 0 is below 64 ns; then four buckets per octave up to
 * 2^36 ns (68.7 s); the last takes all above.  Error at most 12.5 %.
 */
#define HISTOGRAM_FIRST_SHIFT 6
#define HISTOGRAM_LAST_SHIFT  36
#define HISTOGRAM_BUCKETS     128
#define HISTOGRAM_OVERFLOW    (1 + (HISTOGRAM_LAST_SHIFT - HISTOGRAM_FIRST_SHIFT) * 4)

/* Totals: one row per (CPU, lock, kind), written by that CPU alone. */
struct wait_row {
	__u64 key; /* row_key(); 0: free */
	__u64 waits;
	__u64 wait_ns;
	__u64 max_ns;
	__u64 pending_ns; /* waits since the last sampled one, outliers left out */
	__u32 pending_waits;
	__u32 begins;                       /* drives the sampling */
	__u32 failed;                       /* waits that ended without the lock (signal, deadlock) */
	__u8 owner;                         /* enum lock_owner: object of current that holds the lock word */
	__u8 has_stack;                     /* a wait of this row took one */
	__u8 reach;                         /* of the locks whose home this row is, how far away the farthest lives */
	__u8 crowded;                       /* one of them found no place: there is none for others */
	__u16 owner_offset;                 /* of the lock word in that object */
	__u16 fetched;                      /* never read: see fetch_early() */
	__u32 owner_id;                     /* the task's, or its process's: both have it, but for OWNER_TASK */
	__u32 histogram[HISTOGRAM_BUCKETS]; /* wraps: readers take differences */
};

/* The objects of the current task that a waited-for lock was looked for in. */
enum lock_owner {
	OWNER_UNKNOWN,
	OWNER_TASK,    /* task_struct */
	OWNER_MM,      /* mm_struct */
	OWNER_SIGNAL,  /* signal_struct */
	OWNER_SIGHAND, /* sighand_struct */
	OWNER_FILES,   /* files_struct */
	OWNER_COUNT
};

/*
 * In flight, spinning.  A CPU can spin in task, softirq, hardirq and NMI
 * context at once, and in each for a qrwlock and its inner wait_lock.
 */
#define SPIN_DEPTH 8

#define SPIN_HOLDINGS  (1u << 0) /* of a plain one: END_HOLDINGS */
#define SPIN_SLOW_PATH (1u << 1) /* kept by a probe around the slow path: tracepoints inside it do not end it */
#define SPIN_OTHER_ROW (1u << 2) /* its row is that of locks without one */
#define SPIN_PLAIN     (1u << 3) /* nothing else was asked for: its end is a few lines long */
#define SPIN_SAMPLED   (1u << 4) /* took a stack at begin */

struct spin_slot {
	__u64 lock;
	__u64 begin_ns;
	__u64 task; /* address of its task_struct */
	__u32 row;  /* index in totals */
	__u8 kind;
	__u8 flags; /* SPIN_* */
	__u16 pad;
};

/* Of a wait that took a stack: frames, or a negative errno. */
struct stack_lengths {
	__s16 kernel;
	__s16 user;
};

/* Why a begin or an end became no wait; see summary.c of the collector. */
enum counter {
	COUNT_FILTERED,    /* begins that the filters keep out */
	COUNT_UNMATCHED,   /* ends without a begin; in the same line */
	COUNT_REPEATED,    /* further begins of a wait that is in flight: a mutex, a tracepoint in a slow path */
	COUNT_NESTED,      /* begins while another wait is in flight: recorded too */
	COUNT_ORPHANED,    /* begins whose end never came */
	COUNT_TOO_DEEP,    /* waits not recorded: too many waits inside each other on one CPU or task */
	COUNT_NO_SLOT,     /* begins of sleeping waits that found no slot */
	COUNT_TABLE_FULL,  /* waits that went to the row of all unnamed locks */
	COUNT_STACK_ERROR, /* stacks that the kernel refused */
	COUNT_UNNAMED,     /* of the filtered: begins for locks that -L knows by name, and that had none yet */
	COUNT_KNOWN_STACK, /* stacks that were not walked, as they were known (known.bpf.h) */
	COUNT_WRONG_STACK, /* stacks that were walked again, and were not the known one */
	COUNT_LAST = 16
};

#define STATE_FILTERED     (1u << 0) /* by task or by cgroup */
#define STATE_COARSE_CLOCK (1u << 1) /* the clocksource is a device that all CPUs share */
#define STATE_SHALLOW      (1u << 2) /* record --self-check: the deeper probes are silent, or not attached */

#define SPIN_TEXTS 2 /* slow paths of ordinary spinlocks */

/*
 * Beside begin_kinds: what else is asked for.  A common wait reads it in its CPU's first line; a constant of the
 * programs would be a load from another line, although the verifier knows its value.
 */
#define BEGIN_PLAIN       (1u << 31) /* all waits of these kinds are recorded, by a clock that is cheap */
#define END_PLAIN         (1u << 30) /* and no futexes are */
#define BEGIN_UNFILTERED  (1u << 29) /* no filter but that by kind and CPU */
#define BEGIN_PLAIN_SLEEP (1u << 28) /* as END_PLAIN; nor is the owner of a lock looked for */
#define END_HOLDINGS      (1u << 27) /* --holders */

/* What a plain wait's slot has of it. */
static inline __u32 plain_flags(__u32 begin_kinds)
{
	return begin_kinds / (END_PLAIN / SPIN_PLAIN) & (SPIN_PLAIN | SPIN_HOLDINGS);
}

static inline __u32 begin_flags(int plain, int filtered, int holders, int futexes)
{
	__u32 flags = (filtered ? 0 : BEGIN_UNFILTERED) | (holders ? END_HOLDINGS : 0);

	if (!plain)
		return flags;
	if (futexes)
		return flags | BEGIN_PLAIN;
	return flags | BEGIN_PLAIN | END_PLAIN | (holders ? 0 : BEGIN_PLAIN_SLEEP);
}

/* Where a program takes a kernel stack. */
enum stack_from {
	FROM_SPIN,  /* at the begin of a wait that spins, */
	FROM_SLEEP, /* of one that sleeps, */
	FROM_END,   /* at the end of one */
	STACK_FROM = 4
};

/*
 * One per CPU; every line of it is written by that CPU alone, but for
 * sample_mask and stack_tokens, which the collector adapts now and then, and the
 * waits of dead threads, which it adds to COUNT_ORPHANED.  A wait in a cold cache
 * costs what its lines cost: a spinning one needs the first line, slot included,
 * and the one of threshold_ns.
 */
struct cpu_state {
	__u16 spin_depth;
	__u8 sleep_bits; /* of `sleep_mask`, for those who read this line anyway */
	__u8 keeps; /* slots that threads may yet keep between their waits; refilled by the collector once it is 0 */
	__u32 begin_kinds;  /* mask of the kinds let in; 0: -C leaves this CPU out */
	__u32 row_base;     /* of this CPU in totals; set before attaching, as the next two */
	__u32 named_rows;   /* the KIND_COUNT rows after them take the waits without a row */
	__u32 sample_mask;  /* one wait in sample_mask + 1 of a row takes a stack */
	__u32 stack_tokens; /* stacks that may still be taken; refilled by the collector */
	__u64 current_word; /* where the kernel keeps the address of this CPU's current task, once that was seen; else 0 */
	struct spin_slot spin[SPIN_DEPTH];
	struct stack_lengths spin_frames[SPIN_DEPTH];
	__u64 threshold_ns;
	__u64 ends; /* seen, filtered ones included */
	__u32 caller_word; /* of the stack from a tracepoint's arguments on, plus 1: where its caller returns to; 0: not known */
	__u32 home;               /* of a sleeping wait that begins: its row's, until its slot is known */
	__u64 begins[KIND_COUNT]; /* by the kind that the event's flags say */
	__u64 events;             /* wait events ever started in this CPU's ring */
	__u32 rows_used;
	__u32 flags; /* STATE_* */
	__u64 counters[COUNT_LAST];
	__u64 slow_paths[KIND_COUNT]; /* entered, as the probes around them see it: one program for each kind */
	__u64 scratch;
	__u64 begun_ns;              /* the clock, as a begin has read it that then was no plain one; 0: it has not */
	__u64 found_word;            /* current_word, as the collector found it; 0: not found */
	__u32 known_stacks;          /* that were met */
	__u16 first_word;            /* of the stack, from a program's arguments on, with a return address */
	__u8 own_frames[STACK_FROM]; /* of the program, in a stack that was walked; 0: not known */
} __attribute__((aligned(CACHE_LINE)));

/* Entered by a CPU, of all kinds. */
static inline __u64 slow_paths_of(const struct cpu_state *state)
{
	__u64 entered = 0;

	for (int kind = 0; kind < KIND_COUNT; kind++)
		entered += state->slow_paths[kind];
	return entered;
}

/* Of a CPU's tokens those that are not for the first wait of a row: a storm of new locks leaves them to the others. */
#define STACK_RESERVE 8

/* In flight, sleeping: open addressing by tid. */
#define SLEEP_DEPTH  2
#define SLEEP_PROBES 8

#define SLEEP_SAMPLED   (1u << 0)
#define SLEEP_SLOW_PATH (1u << 1) /* begun by a probe around the slow path; no tracepoint told of it yet */
#define SLEEP_PLAIN     (1u << 2) /* as SPIN_PLAIN */

struct sleep_wait {
	__u64 lock;
	__u64 begin_ns;
	__u8 kind;
	__u8 flags; /* SLEEP_* */
	__u16 begin_cpu;
	union {
		struct stack_lengths frames;
		__u32 row; /* of a plain one: index in totals, of the CPU where it began */
	};
};

/* Beside tgid, of a slot that stays its thread's between waits. */
#define SLEEP_KEPT (1u << 31)

struct sleep_slot {
	__u32 tid;       /* 0: free */
	__u32 displaced; /* tids whose home is here and that live elsewhere */
	struct sleep_wait wait[SLEEP_DEPTH];
	__u16 depth;
	__u16 fetched; /* never read: see fetch_early() */
	__u32 tgid;    /* and SLEEP_KEPT; of a free slot that of its last owner */
};

/*
 * Stacks.  The user half exists only in a recording with --user-stacks: the
 * maps' value size is set at load (see maps_resize()).
 */
#define STACK_FRAMES 24

/* Kernel stacks of tasks are as large, and aligned to it: arch/x86/include/asm/page_64_types.h. */
#define STACK_ALIGNED (16u << 10)

struct wait_stack {
	__u64 kernel[STACK_FRAMES];
	__u64 user[STACK_FRAMES];
};

struct kernel_frames {
	__u64 address[STACK_FRAMES];
};

/* Return addresses of walked stacks, and where the next one lies (known.bpf.h).  One for all CPUs. */
#define STACK_STEPS 4096

struct stack_steps {
	__u64 wrong; /* a known stack was another one */
	__u64 entry[STACK_STEPS];
};

#define EVENT_OUTLIER      (1u << 0) /* over the threshold: stands for itself */
#define EVENT_SAMPLED      (1u << 1) /* stands for `weight` waits of its row */
#define EVENT_STACK_AT_END (1u << 2) /* walked with the lock held */
#define EVENT_OTHER_ROW    (1u << 3) /* its weight is that of locks without a row */

struct wait_event {
	__u64 sequence; /* position in the ring + 1, written last; 0: being written */
	__u64 begin_ns;
	__u64 wait_ns;
	__u64 lock;
	__u64 cgroup;
	__u64 weight_ns;
	__u32 weight;
	__u32 tid;
	__u32 tgid;
	__s32 result; /* of the wait: 0, or a negative errno */
	__u16 cpu;
	__u16 begin_cpu;
	__u8 kind;
	__u8 flags;
	__s16 kernel_frames; /* or a negative errno */
	__s16 user_frames;
	__s16 priority; /* task_struct.prio of the waiter at the end: below 100 real time, below 0 deadline */
	__u8 policy;    /* SCHED_* */
	__u8 pad[3];
	char comm[16];
	struct wait_stack stack;
};

/*
 * Turns (record --holders): who let go of a lock that others waited for, and
 * who got it after waiting.  One cache line each, in a ring of each CPU; what
 * they mean together is worked out by the collector (holdings.c).
 */
#define HOLDING_RELEASE (1u << 0) /* else the end of a wait */
#define HOLDING_READERS (1u << 1) /* of a wait: readers held the lock when it began */

struct holding_record {
	__u64 sequence; /* as in struct wait_event */
	__u64 time_ns;  /* of the release, before the lock is free; or of the wait's end */
	__u64 lock;
	__u64 begin_ns; /* of the wait */
	__u32 tid;
	__u32 tgid;
	__u32 owner_tid; /* of the wait: who held the lock when it began; 0: not known */
	__u8 kind;       /* KIND_UNKNOWN: a release that does not tell */
	__u8 flags;      /* HOLDING_* */
	__u16 stack;     /* of the release: slot in release_stacks + 1; 0: none */
	char comm[16];   /* of the releasing task */
};

#define RELEASE_STACKS 32 /* per CPU */
#define RELEASE_TOKENS 8  /* the most stacks between two looks at the rings; few enough that none is overwritten */
#define HOLD_DEPTH     8

/* A spinlock that a CPU holds, of those whose holds are measured. */
struct hold_slot {
	__u64 lock;
	__u64 begin_ns;
};

/* One per CPU, written by it alone but for stack_tokens. */
struct release_state {
	__u64 holdings; /* ever started in this CPU's ring */
	__u32 stack_tokens;
	__u32 stacks;
	__u32 hold_depth;
	__u32 holds_lost; /* holds that found no slot, or whose release was not seen */
	__u64 pad[5];
	struct hold_slot holds[HOLD_DEPTH];
};

/* --holds: spinlocks whose holds are measured, found by focus_slot(). */
#define FOCUS_LOCKS 32

struct hold_row {
	__u64 holds;
	__u64 hold_ns;
	__u64 max_ns;
	__u64 pad[5];
	__u32 histogram[HISTOGRAM_BUCKETS];
};

/* Where no lock word tells of waiters (test-and-set), they are counted by the lock's hash. */
#define WAITER_COUNTS 1024

struct waiter_count {
	__u32 waiters;
	__u32 pad[15];
};

static inline __u32 lock_hash(__u64 lock, __u32 entries)
{
	return (lock >> 2) * 0x9e3779b97f4a7c15ull >> 32 & (entries - 1);
}

static inline __u32 focus_slot(__u64 lock)
{
	return lock_hash(lock, FOCUS_LOCKS);
}

/*
 * Relief (record --episodes): what a CPU did, so that a long wait can be told
 * with what went on around it.  One cache line each, in a ring of each CPU.
 */
enum context_type {
	CONTEXT_INTERRUPT_ENTRY, /* value: its number; name: its handler's */
	CONTEXT_INTERRUPT_EXIT,
	CONTEXT_VECTOR_ENTRY, /* x86, without a number: value: enum context_vector */
	CONTEXT_VECTOR_EXIT,
	CONTEXT_IPI_ENTRY, /* arm64; name: what for */
	CONTEXT_IPI_EXIT,
	CONTEXT_IPI_SENT,      /* value: to which CPU */
	CONTEXT_SOFTIRQ_ENTRY, /* value: which */
	CONTEXT_SOFTIRQ_EXIT,
	CONTEXT_SWITCH,           /* other: the task that runs now, value: state of the one before */
	CONTEXT_WAKING,           /* other: the task that is to be woken */
	CONTEXT_WAKEUP,           /* the same, now on a run queue; value: which CPU's */
	CONTEXT_WAIT_TASK,        /* a turn of wait_task_inactive(); other: the task that is to stop running */
	CONTEXT_SWITCH_THROTTLED, /* as the switch; the task before could run, and may not: its group's time is used up */
	CONTEXT_WAKEUP_THROTTLED, /* as the wake-up, of such a task */
	CONTEXT_IPIS_SENT,        /* name: to which of IPI_CPUS CPUs, as a bit set; value: the first of them */
	CONTEXT_TYPES
};

enum context_vector {
	VECTOR_LOCAL_TIMER,
	VECTOR_RESCHEDULE,
	VECTOR_CALL_FUNCTION,
	VECTOR_CALL_FUNCTION_SINGLE,
	VECTOR_IRQ_WORK,
	CONTEXT_VECTORS
};

struct context_record {
	__u64 sequence; /* as in struct wait_event */
	__u64 time_ns;
	__u32 tid; /* current; of a switch: the task that ran before */
	__u32 other_tid;
	__u32 value;
	__u8 type; /* enum context_type */
	__u8 pad[3];
	char comm[16]; /* of tid */
	char name[16]; /* of the interrupt, or the other task's comm */
};

#define IPI_CPUS 128 /* bits in a record's name */

/* One per CPU, written by it alone. */
struct context_state {
	__u64 records; /* ever started in this CPU's ring */
	__u64 pad[7];
};

/* Key of a row that the collector takes back: no lock has it, and none may claim the row. */
#define ROW_RETIRED 1ull

/* A key holds the kind in the bits that a kernel address does not need. */
static inline __u64 row_key(__u64 lock, __u32 kind)
{
	return lock << 8 | kind;
}

static inline __u64 row_lock(__u64 key)
{
	return key >> 8 | 0xffull << 56;
}

static inline __u32 row_kind(__u64 key)
{
	return key & 0xff;
}

/*
 * 1 if v > limit, else 0; without a branch, which the CPU would foresee for one wait of two.  Were the compiler to see
 * what the difference is for, it would make a compare of it, and BPF has those as branches alone.
 */
static inline __u64 above(__u64 v, __u64 limit)
{
	__u64 difference = limit - v;

	__asm__("" : "+r"(difference));
	return difference >> 63;
}

/* A call costs a wait some 12 ns. */
#define BUCKET_INLINE static inline __attribute__((always_inline))

/* Of ns, below 2^(shift + 14): its bucket, with floor(log2(ns >> 6)) found from v = ns >> (6 + shift) on. */
BUCKET_INLINE __u32 bucket_from(__u64 ns, __u64 v, __u64 shift)
{
	__u64 step = above(v, 0xf) << 2;

	v >>= step;
	shift += step;
	step = above(v, 3) << 1;
	v >>= step;
	shift += step + (v >> 1);
	return 1 + shift * 4 + (ns >> (shift + HISTOGRAM_FIRST_SHIFT - 2) & 3);
}

/* Most waits are short: 16 us. */
#define SHORT_WAIT_NS (1u << (HISTOGRAM_FIRST_SHIFT + 8))

BUCKET_INLINE __u32 short_bucket(__u64 ns)
{
	return ns >> HISTOGRAM_FIRST_SHIFT ? bucket_from(ns, ns >> HISTOGRAM_FIRST_SHIFT, 0) : 0;
}

/* BPF has no count-leading-zeros instruction. */
BUCKET_INLINE __u32 histogram_bucket(__u64 ns)
{
	__u64 v = ns >> HISTOGRAM_FIRST_SHIFT, shift, step;

	if (ns < SHORT_WAIT_NS)
		return short_bucket(ns);
	if (ns >> HISTOGRAM_LAST_SHIFT)
		return HISTOGRAM_OVERFLOW;
	shift = above(v, 0xffff) << 4;
	v >>= shift;
	step = above(v, 0xff) << 3;
	return bucket_from(ns, v >> step, shift + step);
}

_Static_assert(sizeof(struct wait_row) == 64 + 4 * HISTOGRAM_BUCKETS, "row: header line + histogram");
_Static_assert(sizeof(struct wait_row) % CACHE_LINE == 0, "rows share no line");
_Static_assert(HISTOGRAM_OVERFLOW < HISTOGRAM_BUCKETS, "histogram fits");
_Static_assert(END_PLAIN / SPIN_PLAIN == END_HOLDINGS / SPIN_HOLDINGS, "as far apart: plain_flags() has one shift");
_Static_assert(offsetof(struct cpu_state, spin) + sizeof(struct spin_slot) == CACHE_LINE, "first line: first slot too");
_Static_assert(offsetof(struct cpu_state, threshold_ns) % CACHE_LINE == 0, "second line of a spinning wait");
_Static_assert(sizeof(struct cpu_state) % CACHE_LINE == 0, "CPUs share no line");
_Static_assert(sizeof(struct sleep_slot) == CACHE_LINE, "sleepers share no line");
_Static_assert(sizeof(struct holding_record) == CACHE_LINE, "holding records share no line");
_Static_assert(sizeof(struct release_state) % CACHE_LINE == 0, "CPUs share no line");
_Static_assert(sizeof(struct hold_row) % CACHE_LINE == 0, "hold rows share no line");
_Static_assert(sizeof(struct waiter_count) == CACHE_LINE, "counts share no line");
_Static_assert(sizeof(struct context_record) == CACHE_LINE, "context records share no line");
_Static_assert(sizeof(struct context_state) == CACHE_LINE, "CPUs share no line");
_Static_assert(sizeof(struct wait_event) == 96 + sizeof(struct wait_stack), "event");

#endif /* LOCKLINE_H */
