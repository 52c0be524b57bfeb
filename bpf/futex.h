/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the futex programs (record --futex) share with the collector: as
 * lockline.h, fixed-width types and pinned sizes.
 */
#ifndef LOCKLINE_FUTEX_H
#define LOCKLINE_FUTEX_H

#include "lockline.h"

/* The first are the commands of futex(2), include/uapi/linux/futex.h; the others are system calls of their own. */
enum futex_op {
	FUTEX_OP_WAIT = 0,
	FUTEX_OP_WAKE = 1,
	FUTEX_OP_REQUEUE = 3,
	FUTEX_OP_CMP_REQUEUE = 4,
	FUTEX_OP_WAKE_OP = 5,
	FUTEX_OP_LOCK_PI = 6,
	FUTEX_OP_UNLOCK_PI = 7,
	FUTEX_OP_TRYLOCK_PI = 8,
	FUTEX_OP_WAIT_BITSET = 9,
	FUTEX_OP_WAKE_BITSET = 10,
	FUTEX_OP_WAIT_REQUEUE_PI = 11,
	FUTEX_OP_CMP_REQUEUE_PI = 12,
	FUTEX_OP_LOCK_PI2 = 13,
	FUTEX_OP_WAITV = 16, /* futex_waitv(), 5.16 */
	FUTEX_OP_WAKE2 = 17, /* futex_wake(), futex_wait() and futex_requeue(), 6.7 */
	FUTEX_OP_WAIT2 = 18,
	FUTEX_OP_REQUEUE2 = 19,
	FUTEX_OP_YIELD = 20,      /* sched_yield(): a thread that waits for others lets them run */
	FUTEX_OP_GO_POOL = 23,    /* no futex calls: a goroutine waits for one of a library's pool */
	FUTEX_OP_GO_LOCK = 24,    /* likewise: for a mutex */
	FUTEX_OP_GO_UNLOCK = 25,  /* one lets go, signals or ends, which wakes another that waits */
	FUTEX_OP_GO_SEND = 26,    /* likewise: a goroutine waits until somebody receives what it sends */
	FUTEX_OP_GO_SELECT = 27,  /* the same in a select, which may go on by another case too */
	FUTEX_OP_GO_GROUP = 28,   /* it waits for a sync.WaitGroup */
	FUTEX_OP_GO_COND = 29,    /* for a sync.Cond */
	FUTEX_OP_GO_RECEIVE = 30, /* it waits until somebody sends to a channel with a buffer */
	FUTEX_OP_NONE = 31
};

#define FUTEX_BIT(op) (1u << (op))
#define FUTEX_PI_OPS                                                                                   \
	(FUTEX_BIT(FUTEX_OP_LOCK_PI) | FUTEX_BIT(FUTEX_OP_LOCK_PI2) | FUTEX_BIT(FUTEX_OP_TRYLOCK_PI) | \
	 FUTEX_BIT(FUTEX_OP_UNLOCK_PI))
#define FUTEX_WAIT_OPS                                                                                    \
	(FUTEX_BIT(FUTEX_OP_WAIT) | FUTEX_BIT(FUTEX_OP_WAIT_BITSET) | FUTEX_BIT(FUTEX_OP_LOCK_PI) |       \
	 FUTEX_BIT(FUTEX_OP_LOCK_PI2) | FUTEX_BIT(FUTEX_OP_WAIT_REQUEUE_PI) | FUTEX_BIT(FUTEX_OP_WAITV) | \
	 FUTEX_BIT(FUTEX_OP_WAIT2) | FUTEX_BIT(FUTEX_OP_YIELD))
#define FUTEX_REQUEUE_OPS                                                                                     \
	(FUTEX_BIT(FUTEX_OP_REQUEUE) | FUTEX_BIT(FUTEX_OP_CMP_REQUEUE) | FUTEX_BIT(FUTEX_OP_CMP_REQUEUE_PI) | \
	 FUTEX_BIT(FUTEX_OP_REQUEUE2))

/* sched_yield() names no futex: all of a process are one row, at an address that no futex has. */
#define FUTEX_YIELD_ADDRESS 1

/* A task inside a futex call: open addressing by tid, as struct sleep_slot.  By the number of threads, a power of two. */
#define FUTEX_LEAST_SLOTS 16384
#define FUTEX_MOST_SLOTS  262144
#define FUTEX_PROBES      8

#define FUTEX_SHARED (1u << 0)
#define FUTEX_TIMED  (1u << 1) /* with a timeout */
#define FUTEX_RAN    (1u << 2) /* was woken, and given a CPU: it slept; of a yield: others ran meanwhile */
#define FUTEX_WOKEN  (1u << 3)
#define FUTEX_SEM    (1u << 4) /* the word is that of a sem_t of glibc, without a token */
#define FUTEX_PAUSED (1u << 5) /* a signal ended the call, which restart_syscall() may go on with */

#define FUTEX_MET (~0ull)

struct futex_slot {
	__u32 tid;       /* 0: free */
	__u32 displaced; /* tids whose home is here and that live elsewhere */
	__u32 tgid;
	__u32 waker_tid;
	__u64 address; /* of the futex word */
	__u64 begin_ns;
	__u64 waking_ns; /* of the last wake-up */
	__u64 switches;  /* of the task when the call began; FUTEX_MET: it had begun before */
	__u32 value;     /* that the word was to have */
	__u32 word;      /* that it had */
	__u32 owner;     /* 8 bytes above: pthread_mutex_t.__owner of glibc, if it is one */
	__u8 op;
	__u8 flags; /* FUTEX_* above */
	__u16 pad;
};

/* A goroutine that waits: open addressing by a hash of the process and the goroutine, as futex_row_key(). */
#define GO_SLOTS  16384
#define GO_PROBES 16
/* What a goroutine waits at, in sync.Mutex and in sync.RWMutex, whose own mutex is its first member: Go 1.20 to 1.26. */
#define GO_MUTEX_SEMAPHORE  4
#define GO_WRITER_SEMAPHORE 8
#define GO_READER_SEMAPHORE 12
/* Where the lock of its list of waiters is in sync.Cond. */
#define GO_COND_LOCK 24
/* Of a select's channels, so many of those to send to, and of those to receive from, are looked at. */
#define GO_SELECT_CASES 4
/*
 * A channel begins with the number of its values, the size of its buffer and the buffer's address.  How far its lock is
 * behind that differs: 88 bytes before Go 1.23, 96 before 1.25, 104 since then.
 */
#define GO_CHANNEL_LOCK_LEAST 88
#define GO_CHANNEL_LOCK_MOST  104
/* A buffer for one value is a place for one answer, as that of a timer: no pool. */
#define GO_CHANNEL_BUFFER 2

struct go_slot {
	__u64 key;      /* 0: free */
	__u64 address;  /* of the lock */
	__u64 begin_ns; /* 0: being written */
	__u64 ready_ns; /* when it was made ready to run; 0: not yet, or not known */
	__u32 tgid;
	__u32 op;
	__u32 pad[6];
};

/*
 * Goroutines that wait, or wake others, from one stack at one address: a CPU's open addressing by a hash of these.
 * All that is to be told of them goes with their next event, so that each place has all of its waiting.  One that has
 * nothing to tell gives its place away, and so does one that nobody came to for a while: of locks that come and go, the
 * table would fill up with what is never told.
 */
#define GO_SITES       512
#define GO_SITE_PROBES 8
#define GO_SITE_NS     100000000ull /* between two events of one */
#define GO_SITE_IDLE   10           /* so many times as long */

struct go_site {
	__u64 key;     /* 0: free */
	__u64 next_ns; /* when its next event may be, or when the last wait came that found no token for it */
	__u64 count;   /* waits, or goroutines woken, since the last one */
	__u64 ns;
};

/*
 * One row per (CPU, process, address).  The key is a hash of both: 64 bits, of
 * which no two in a table of thousands are the same.  Probes go ever further:
 * each looks at other cache lines anyhow, and neighbours fill no places in a row.
 * The collector takes idle rows back when a table fills up (futex_rows.c): a
 * futex may then have two rows of a CPU.
 */
#define FUTEX_ROW_PROBES 16
/* The key of a row that is taken back: no program finds it. */
#define FUTEX_ROW_RETIRED (~0ull)

struct futex_row {
	__u64 key; /* 0: free */
	__u64 address;
	__u32 tgid;
	__u32 flags; /* FUTEX_SHARED */
	__u64 ops;   /* mask of FUTEX_BIT() */
	__u64 calls; /* to wait */
	__u64 slept;
	__u64 wait_ns; /* of those that slept, as all further figures of waits */
	__u64 max_ns;
	__u64 timed_out;
	__u64 timed_out_ns;
	__u64 again; /* the word had another value: no wait */
	__u64 interrupted;
	__u64 failed;
	__u64 timed;   /* calls with a timeout */
	__u64 value_2; /* calls that expected a 2: locked with waiters, to glibc, Rust, Go and many others */
	__u64 wakes;   /* calls to wake */
	__u64 wakes_empty;
	__u64 tasks_woken;
	__u64 latencies;
	__u64 latency_ns;
	__u64 max_latency_ns;
	__u64 pending_waits; /* since the last sample */
	__s64 span_begun_ns;
	__s64 span_ns;
	__s64 point_ns;
	__u64 waiter_set[2]; /* bits by hash of the tid */
	__u64 waker_set[2];
	__u16 wait_samples; /* as far as they are counted */
	__u16 wake_samples;
	__u32 semaphores; /* calls with FUTEX_SEM */
	char comm[16];    /* of the process, when it used the futex first; it may soon be gone */
	__u32 histogram[HISTOGRAM_BUCKETS];
	__u32 latency_histogram[HISTOGRAM_BUCKETS];
};

/* Waits for the lock of a hash bucket, by the futex that led there; one line each, per CPU. */
#define FUTEX_BUCKET_ROWS   256
#define FUTEX_BUCKET_PROBES 8

struct futex_bucket {
	__u64 key; /* 0: free */
	__u64 lock;
	__u64 address;
	__u32 tgid;
	__u32 flags; /* FUTEX_SHARED */
	__u64 waits;
	__u64 wait_ns;
	__u64 max_ns;
	__u64 unused;
};

enum futex_counter {
	FUTEX_COUNT_COMPAT,     /* calls of 32-bit tasks */
	FUTEX_COUNT_RESTARTED,  /* waits that restart_syscall() went on with */
	FUTEX_COUNT_NO_SLOT,    /* no place for a task */
	FUTEX_COUNT_ORPHANED,   /* calls whose end was not seen */
	FUTEX_COUNT_NO_ROW,     /* waits and wakes without their futex's name */
	FUTEX_COUNT_NO_BUCKET,  /* waits for a bucket's lock that found no row */
	FUTEX_COUNT_BUCKETS,    /* waits for a bucket's lock */
	FUTEX_COUNT_GO_NO_SLOT, /* no place for a goroutine */
	FUTEX_COUNT_LAST = 8
};

/* One per CPU; the collector refills the tokens. */
struct futex_state {
	__u64 events; /* ever started in this CPU's ring */
	__u32 wait_tokens;
	__u32 wake_tokens;
	__u64 counters[FUTEX_COUNT_LAST];
	__u64 traps;   /* of the programs at Go's functions */
	__u64 span_ns; /* of its rows: see futex_wait_due() */
	__u32 missed;  /* since the last sample of a wait */
	__u32 go_tokens;
	/*
	 * Rows with few samples take turns: one with more than this many waits for those with fewer.  Without it those that
	 * wait often and shortly take all tokens, before a long wait has ended.
	 */
	__u32 few_level;
	__u32 pad_level;
	__u64 pad[2];
};

#define FUTEX_RING_EVENTS 256 /* per CPU */
/*
 * Samples of waits, and of wakes, between two looks at a CPU's ring; half of
 * them are for futexes that have few yet, or the busiest one would take them all.
 */
#define FUTEX_TOKENS      16
#define FUTEX_RESERVED    8
#define FUTEX_FEW_SAMPLES 8
#define FUTEX_FEW_WAKES   4 /* likewise of wakes, of which there are fewer kinds */
/* Events of goroutines, whose stacks come by frame pointers and cost little. */
#define FUTEX_GO_TOKENS 64

#define FUTEX_EVENT_WAKE   (1u << 0) /* else the end of a wait that slept */
#define FUTEX_EVENT_SHARED (1u << 1)
#define FUTEX_EVENT_SEM    (1u << 2) /* as FUTEX_SEM */

struct futex_event {
	__u64 sequence; /* as in struct wait_event */
	__u64 address;
	__u64 wait_ns;
	__u64 weight_ns;
	__u32 weight; /* waits that it stands for; of a wake: tasks woken */
	__u32 tid;
	__u32 tgid;
	__u32 waker_tid; /* of a wait */
	__u32 value;
	__u32 word;
	__u32 owner;
	__u8 op;
	__u8 flags; /* FUTEX_EVENT_* */
	__s16 user_frames;
	__u32 futex_tgid; /* of the row: of a shared futex's wake, that of the task that was woken */
	__u32 pad;
	char comm[16];
	__u64 user[STACK_FRAMES];
};

/*
 * The top of a sample's stack in user space, as its event's, for those who unwind it: a C library keeps no frame
 * pointers.  Each CPU has a few, as many samples as it takes between two looks at its ring; not on machines of
 * very many CPUs.
 */
#define FUTEX_STACK_BYTES     8192
#define FUTEX_STACK_CHUNK     512
#define FUTEX_STACKS          32 /* per CPU, at most */
#define FUTEX_STACKS_BYTES    (16u << 20)
#define FUTEX_STACK_REGISTERS 32

struct futex_stack {
	__u64 sequence;    /* of its event; 0: being written */
	__u64 stack_bytes; /* from the stack pointer on */
	__u64 pc;
	__u64 program; /* of its process: another one after an exec, or of a process that has its id later */
	__u64 registers[FUTEX_STACK_REGISTERS]; /* by DWARF's numbers; x86-64 has 16 of them, arm64 32 */
	__u8 stack[FUTEX_STACK_BYTES];
};

/* A power of two, or 0. */
static inline __u32 futex_stacks_per_cpu_of(__u32 cpus)
{
	__u32 count = FUTEX_STACKS;

	while (count && (__u64)count * cpus * sizeof(struct futex_stack) > FUTEX_STACKS_BYTES)
		count /= 2;
	return count;
}

/*
 * Which wait is sampled must not follow from when it ends: of those that end together only the first would have a
 * chance.  So all waiting at a row is laid end to end and parted into spans, and the wait that covers a random point of
 * a span stands for all of it: each has a chance as long as it is.  Spans of a CPU's rows are of one length, so that
 * rows have samples as they have waiting, and the first few come sooner, in turns.  It grows where a point finds no
 * token, and shrinks where one does; of no length, a wait stands for all since the last sample.
 */
#define FUTEX_LEAST_SPAN_NS 1000

static inline __s64 futex_point(__s64 from, __s64 to, __u32 random)
{
	return from + ((__u64)(to - from) >> 10) * (random & 1023);
}

static inline __s64 futex_span(const struct futex_row *row, __u64 span_ns)
{
	return row->wait_samples < FUTEX_FEW_SAMPLES ? span_ns >> (FUTEX_FEW_SAMPLES - row->wait_samples) : span_ns;
}

static inline int futex_wait_due(const struct futex_row *row)
{
	return row->span_begun_ns >= row->point_ns;
}

/* Whether others have fewer samples: see few_level. */
static inline int futex_wait_yields(const struct futex_state *state, const struct futex_row *row)
{
	return row->wait_samples < FUTEX_FEW_SAMPLES && row->wait_samples > state->few_level;
}

/* The row's span goes on, and has another point that is still to come.  Rows have points from when spans were shorter. */
static inline void futex_wait_passed(const struct futex_state *state, struct futex_row *row, __u32 random)
{
	const __s64 begun = row->span_begun_ns, span = row->span_ns;

	row->span_ns = (begun > span ? begun : span) + futex_span(row, state->span_ns);
	row->point_ns = futex_point(begun, row->span_ns, random);
}

/*
 * The same for want of a token.  A point from when spans were shorter says nothing of those of today: as long as such
 * points come, the span would grow without end, and nobody be sampled afterwards.
 */
static inline void futex_wait_missed(struct futex_state *state, struct futex_row *row, __u32 random)
{
	if (!state->missed && row->span_ns >= futex_span(row, state->span_ns))
		state->span_ns += state->span_ns / 2 + FUTEX_LEAST_SPAN_NS;
	state->missed = 1;
	futex_wait_passed(state, row, random);
}

/* How much the sample stands for, ns. */
static inline __u64 futex_wait_sampled(struct futex_state *state, struct futex_row *row, __u32 random)
{
	__s64 span = row->span_ns, begun = row->span_begun_ns, sampled = span ? span : begun, more = 0;

	state->span_ns -= (state->span_ns + 31) / 32;
	state->missed = 0;
	span = futex_span(row, state->span_ns);
	begun -= sampled;
	/* A wait may be longer than a span. */
	if (span && begun > 0)
		more = (__u64)begun / span * span;
	row->span_ns = span;
	row->point_ns = futex_point(0, span, random);
	if (span && begun - more > row->point_ns) {
		more += span;
		row->point_ns = futex_point(0, span, random >> 10);
	}
	row->span_begun_ns = begun - more;
	return sampled + more;
}

/* Whether another place may have what this one has. */
static inline int go_site_is_free(const struct go_site *site, __u64 now)
{
	return !site->count || now > site->next_ns + GO_SITE_IDLE * GO_SITE_NS;
}

static inline __u64 futex_row_key(__u32 tgid, __u64 address)
{
	__u64 key = (address ^ (__u64)tgid << 42) * 0x9e3779b97f4a7c15ull;

	key ^= key >> 29;
	key += (__u64)tgid * 0xbf58476d1ce4e5b9ull;
	return key && key != FUTEX_ROW_RETIRED ? key : 1;
}

/*
 * The word and what lies above it: glibc's pthread_mutex_t has its owner two words above its lock (2.3 to 2.42, 32 and
 * 64 bits), its sem_t on 64 bits the number of waiters one above its value and how it is shared two above (2.21 to 2.42).
 */
struct futex_words {
	__u32 word;
	__u32 next;
	__u32 owner;
};

#define FUTEX_PRIVATE 128u /* FUTEX_PRIVATE_FLAG and FUTEX2_PRIVATE */

/* More waiters than this are no number of waiters. */
#define FUTEX_MANY_WAITERS 32768

/* A wait for a sem_t without a token; shared: FUTEX_SHARED or 0. */
static inline int futex_is_semaphore(const struct futex_words *words, __u32 op, __u32 value, __u32 shared)
{
	return op == FUTEX_OP_WAIT_BITSET && !value && !words->word && words->next - 1 < FUTEX_MANY_WAITERS &&
	       words->owner == (shared ? FUTEX_PRIVATE : 0);
}

_Static_assert(sizeof(struct futex_slot) == CACHE_LINE, "tasks share no line");
_Static_assert(sizeof(struct go_slot) == CACHE_LINE, "goroutines share no line");
_Static_assert(GO_SITES * sizeof(struct go_site) % CACHE_LINE == 0, "CPUs share no line");
_Static_assert(sizeof(struct futex_row) % CACHE_LINE == 0, "rows share no line");
_Static_assert(sizeof(struct futex_bucket) == CACHE_LINE, "buckets share no line");
_Static_assert(sizeof(struct futex_state) % CACHE_LINE == 0, "CPUs share no line");

#endif /* LOCKLINE_FUTEX_H */
