/* SPDX-License-Identifier: GPL-2.0 */
/* What an ended wait leaves behind: its row's figures, and at times an event. */
#ifndef RECORD_BPF_H
#define RECORD_BPF_H

#include "bucket.bpf.h"
#include "clock.bpf.h"
#include "event.bpf.h"
#include "table.bpf.h"
#include "holding.bpf.h"

/*
 * Whether this wait takes a stack: one in a period, and the first of a row, for
 * its call site.  Tokens bound both: locks come and go by the thousand, and a
 * period that suited an idle second meets a storm in the next.  In a storm a lock
 * must be waited for twice to take one of the last tokens.
 */
static __always_inline bool takes_sample(struct cpu_state *state, struct wait_row *row)
{
	__u32 mask = state->sample_mask, waits = row ? row->begins++ : 0;
	bool due = row && (waits & mask) == mask;

	/* Without a row yet: the first of it. */
	if (!due && row && row->has_stack)
		return false;
	if (state->stack_tokens <= (due || waits ? 0 : STACK_RESERVE))
		return false;
	state->stack_tokens--;
	return true;
}

/* Whether takes_sample() may say yes, but for its tokens: 0 if so, of most waits not.  A product is one branch less. */
static __always_inline __u32 no_sample_due(const struct cpu_state *state, const struct wait_row *row)
{
	return (~row->begins & state->sample_mask) * row->has_stack;
}

static __always_inline void add(__u64 *value, __u64 n, bool atomic)
{
	if (atomic)
		__sync_fetch_and_add(value, n);
	else
		*value += n;
}

static __always_inline void add32(__u32 *value, __u32 n, bool atomic)
{
	if (atomic)
		__sync_fetch_and_add(value, n);
	else
		*value += n;
}

/* A sampled wait or an outlier: rare, and kept out of the hot path's code.  held: as of search_rows(). */
static __noinline int record_event(void *ctx, struct cpu_state *state, struct wait_row *row, struct ended_wait *wait,
				   bool held)
{
	__u64 weight_ns;
	__u32 weight = 1;

	if (!ctx || !state || !row || !wait)
		return 0;
	row->has_stack = 1;
	weight_ns = wait->wait_ns;
	if (wait->wait_ns < state->threshold_ns) {
		/* Taken at once: a sleeper's program may be preempted here, and another adds to them. */
		weight_ns += __sync_lock_test_and_set(&row->pending_ns, 0);
		weight += __sync_lock_test_and_set(&row->pending_waits, 0);
	}
	write_event(ctx, state, wait, weight, weight_ns, held);
	return 0;
}

/* Who held the lock when the wait began, as its owner field told (sleeping.bpf.h). */
static __always_inline __u32 owner_at_begin(const struct ended_wait *wait)
{
	__u32 slot = wait->stack, *owner;

	if (wait->spinning)
		return 0;
	owner = bpf_map_lookup_elem(&sleep_owners, &slot);
	return owner ? *owner : 0;
}

static __always_inline void add_wait(struct wait_row *row, __u64 wait_ns, __u32 bucket, bool atomic)
{
	__s64 max_ns = row->max_ns, difference = max_ns - wait_ns;

	add(&row->wait_ns, wait_ns, atomic);
	/*
	 * Without a branch, as above(); both are below 2^63.  Where programs can be preempted a maximum may be lost here; its
	 * bucket and its outlier stand.
	 */
	barrier_var(difference);
	row->max_ns = max_ns - (difference & difference >> 63);
	add32(&row->histogram[bucket & (HISTOGRAM_BUCKETS - 1)], 1, atomic);
}

/* Until a sample or the collector takes them. */
static __always_inline void add_pending(struct wait_row *row, __u64 wait_ns, bool atomic)
{
	add(&row->pending_ns, wait_ns, atomic);
	add32(&row->pending_waits, 1, atomic);
}

static __always_inline void record_wait(void *ctx, struct cpu_state *state, struct wait_row *row,
					struct ended_wait *wait, bool atomic, bool held)
{
	add_wait(row, wait->wait_ns, histogram_bucket(wait->wait_ns), atomic);
	if (wait->result)
		add32(&row->failed, 1, atomic);
	if (wait->sampled || wait->wait_ns >= state->threshold_ns)
		record_event(ctx, state, row, wait, held);
	else
		add_pending(row, wait->wait_ns, atomic);
	/* Last: a reader that sees the count finds the rest. */
	barrier();
	add(&row->waits, 1, atomic);
	if (record_holdings && !(state->flags & STATE_SHALLOW))
		record_wait_holding(ctx, wait, owner_at_begin(wait));
	if (record_futexes && !(state->flags & STATE_SHALLOW))
		note_bucket_wait(wait->lock, wait->kind, wait->wait_ns);
}

#endif /* RECORD_BPF_H */
