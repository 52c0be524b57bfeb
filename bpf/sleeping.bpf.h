/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sleeping waits in flight: one table for all CPUs, open addressing by tid,
 * one cache line per waiter.  Only the waiter touches its slot; a slot is
 * claimed by compare-and-swap.  `displaced` lets a look-up stop at the home
 * slot unless some tid of that home lives elsewhere.
 *
 * A thread that finds its home as one of its process left it is taken for one that waits
 * again and again.  It keeps the slot between its waits, and saves the locked operation.  Few slots may be kept
 * (`keeps`): a table full of threads that do not wait would leave no place for those that do.
 */
#ifndef SLEEPING_BPF_H
#define SLEEPING_BPF_H

#include "in_flight.bpf.h"
#include "owner.bpf.h"
#include "record.bpf.h"

/* As publish(). */
static __always_inline void publish_depth(struct sleep_slot *slot, __u32 depth)
{
#if defined(__TARGET_ARCH_x86)
	barrier();
	*(volatile __u16 *)&slot->depth = depth;
#else
	__sync_lock_test_and_set((__u32 *)&slot->depth, depth);
#endif
}

static __always_inline __s32 claim_sleeper(__u32 tid)
{
	__u32 home = tid & sleep_mask;

	for (int probe = 0; probe < SLEEP_PROBES; probe++) {
		__u32 index = (home + probe) & sleep_mask;
		struct sleep_slot *slot = sleeper_at(index), *home_slot;

		if (!slot || slot->tid || __sync_val_compare_and_swap(&slot->tid, 0, tid))
			continue;
		slot->depth = 0;
		home_slot = sleeper_at(home);
		if (probe && home_slot)
			__sync_fetch_and_add(&home_slot->displaced, 1);
		return index;
	}
	return -1;
}

static __always_inline void release_sleeper(struct sleep_slot *slot, __u32 index, __u32 tid)
{
	__u32 home = tid & sleep_mask;
	struct sleep_slot *home_slot = sleeper_at(home);

	if (slot->tgid & SLEEP_KEPT)
		return;
	if (index != home && home_slot)
		__sync_fetch_and_add(&home_slot->displaced, -1);
	publish(&slot->tid, 0);
}

/* As samples_sleeper(), for a lock without a row at home. */
static __noinline int samples_away(struct cpu_state *state, __u64 lock, __u32 kind, bool held)
{
	__u32 index = ROW_CAN_BE_CLAIMED, asleep;
	struct wait_row *row;

	if (!state)
		return 0;
	if (kind != KIND_MUTEX_SPIN) {
		if (!kind_recorded(kind))
			return 0;
		row = row_at(probe_rows(state, lock, kind, held));
		return row && takes_sample(state, row);
	}
	if (kind_recorded(KIND_MUTEX_SPIN))
		index = search_row(state, lock, KIND_MUTEX_SPIN, held);
	if (index >= ROW_NO_PLACE && kind_recorded(KIND_MUTEX)) {
		asleep = search_row(state, lock, KIND_MUTEX, held);
		if (asleep < ROW_NO_PLACE || !kind_recorded(KIND_MUTEX_SPIN))
			index = asleep;
	}
	if (index == ROW_NO_PLACE)
		index = other_row(state, kind_recorded(KIND_MUTEX_SPIN) ? KIND_MUTEX_SPIN : KIND_MUTEX);
	return takes_sample(state, index == ROW_CAN_BE_CLAIMED ? NULL : row_at(index));
}

/*
 * Whether a wait that begins takes a stack.  It claims the row that it will end in, so
 * that its end, with the lock held, need not; but a mutex may still get its lock by
 * spinning or by sleeping, and a row for each would be one too many: until it
 * sleeps it looks at the rows that there are.
 */
static __always_inline bool samples_sleeper(struct cpu_state *state, __u64 lock, __u32 kind, bool held)
{
	__u64 key = row_key(lock, kind);
	struct wait_row *row = row_at(home_row(state, key));

	return row && row->key == key ? takes_sample(state, row) : samples_away(state, lock, kind, held);
}

/* Depth at which a new begin is kept, or -1 if it only repeats the wait in flight. */
static __always_inline __s32 sleep_depth(struct cpu_state *state, struct sleep_slot *slot, __u64 lock, __u32 kind,
					 bool slow_path)
{
	__u32 depth = slot->depth, row_index;
	struct sleep_wait *last;

	if (!depth)
		return 0;
	last = &slot->wait[(depth - 1) & (SLEEP_DEPTH - 1)];
	if (last->lock == lock && (kind == KIND_MUTEX || kind == KIND_MUTEX_SPIN)) {
		/* A mutex begins anew each time it goes from spinning to sleeping and back. */
		if (kind == KIND_MUTEX && last->kind != KIND_MUTEX) {
			last->kind = KIND_MUTEX;
			/* Its row, while the lock is not held. */
			if (kind_recorded(KIND_MUTEX))
				find_row(state, lock, KIND_MUTEX, &row_index, slow_path);
		}
		count(state, COUNT_REPEATED, 1);
		return -1;
	}
	if (last->lock == lock && last->kind == kind && last->flags & SLEEP_SLOW_PATH && !slow_path) {
		/* The tracepoint inside the slow path: of its end and the path's, the first ends the wait. */
		last->flags &= ~SLEEP_SLOW_PATH;
		count(state, COUNT_REPEATED, 1);
		return -1;
	}
	if (last->lock == lock) {
		/* No other lock begins twice: the end of the wait before was lost. */
		count(state, COUNT_ORPHANED, 1);
		return (depth - 1) & (SLEEP_DEPTH - 1);
	}
	if (depth >= SLEEP_DEPTH) {
		count(state, COUNT_TOO_DEEP, depth);
		return 0;
	}
	count(state, COUNT_NESTED, 1);
	return depth & (SLEEP_DEPTH - 1);
}

/*
 * What nearly every sleeping wait is: nothing but waits is asked for, it is its task's only one, its slot and its row
 * are at home, no stack is due.  False: it is more; a slot that was claimed stays so.
 *
 * The clock is read before slot and row are looked at, as in begin_that_spins(), and while it is read their lines are
 * fetched (fetch_early()).  What belongs in the slot is written as soon as it is known: nobody looks at it while its
 * depth is 0, and a program that keeps much needs a stack of its own.
 *
 * slow_path: SLEEP_SLOW_PATH, or 0.
 */
static __always_inline bool begin_plain_sleeping(struct cpu_state *state, __u64 lock, __u32 kind, __u32 slow_path)
{
	__u64 now = 0, ids, key;
	struct sleep_slot *slot;
	struct wait_row *row;
	__u32 kept;

	if (!bpf_rdonly_cast)
		goto no_cast;
	if (!state->current_word)
		goto ask;
	ids = current_ids_by_word(state);
look:
	/* In memory: what a program keeps over a call needs a stack. */
	state->home = home_row(state, row_key(lock, kind));
	row = row_at(state->home);
	slot = sleeper_at(sleeper_home(state, ids));
	if (!slot || !row)
		goto not_plain;
	fetch_early(slot);
	fetch_early(row);
	now = bpf_ktime_get_ns();
	/* Anew, as above. */
	barrier_var(kind);
	key = row_key(lock, kind);
	if (slot->tid != (__u32)ids)
		goto claim;
	if (slot->depth)
		goto not_plain;
	kept = slot->tgid & SLEEP_KEPT;
keep:
	slot->tgid = ids >> 32 | kept;
	slot->wait[0].begin_ns = now;
	slot->wait[0].lock = lock;
	slot->wait[0].kind = kind;
	slot->wait[0].flags = SLEEP_PLAIN | slow_path;
	slot->wait[0].begin_cpu = bpf_get_smp_processor_id();
	slot->wait[0].row = state->home;
	if (row->key != key)
		goto no_row;
	if (!no_sample_due(state, row))
		goto due;
begin:
	row->begins++;
begin_without:
	/* The wait before its depth, for a reader on another CPU. */
	publish_depth(slot, 1);
	return true;
claim:
	if (slot->tid || slot->displaced || __sync_val_compare_and_swap(&slot->tid, 0, (__u32)ids))
		goto not_plain;
	kept = 0;
	if (state->keeps && slot->tgid == ids >> 32) {
		state->keeps--;
		kept = SLEEP_KEPT;
	}
	slot->depth = 0;
	goto keep;
no_row:
	/* A lock without a row: samples_away() would look for two, claim none, and take no stack, as they are scarce. */
	if ((!row->key || !(row->reach | row->crowded)) && (kind == KIND_MUTEX || kind == KIND_MUTEX_SPIN) &&
	    state->sample_mask && state->stack_tokens <= STACK_RESERVE)
		goto begin_without;
	goto begun;
due:
	if (!state->stack_tokens)
		goto begin;
begun:
	/* From memory, as above. */
	now = slot->wait[0].begin_ns;
not_plain:
	state->begun_ns = now;
	return false;
ask:
	ids = bpf_get_current_pid_tgid();
	goto look;
no_cast:
	TOLD_APART;
	ids = bpf_get_current_pid_tgid();
	goto look;
}

/* Whether the home of (lock, kind) is its row: it may be free. */
static __noinline int own_home(struct cpu_state *state, struct wait_row *row, __u64 lock, __u32 kind)
{
	__u64 key = row_key(lock, kind & (KIND_COUNT - 1));

	if (!state || !row)
		return 0;
	if (row->key == key)
		return 1;
	if (row->key || !kind_recorded(kind & (KIND_COUNT - 1)) || __sync_val_compare_and_swap(&row->key, 0, key))
		return 0;
	begin_row(state, row, lock);
	return 1;
}

static __noinline int begin_sleeping(void *ctx, struct cpu_state *state, __u64 lock, __u32 kind, bool slow_path)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 tid = pid_tgid;
	__s32 index, depth;
	struct sleep_slot *slot;
	struct sleep_wait *wait;

	if (!ctx || !state)
		return 0;
	index = find_sleeper(tid);
	if (index < 0)
		index = claim_sleeper(tid);
	slot = index < 0 ? NULL : sleeper_at(index);
	if (!slot) {
		count(state, COUNT_NO_SLOT, 1);
		return 0;
	}
	depth = sleep_depth(state, slot, lock, kind, slow_path);
	if (depth < 0)
		return 0;
	depth = unknown(depth, lock) & (SLEEP_DEPTH - 1);
	wait = &slot->wait[depth];
	wait->lock = lock;
	wait->kind = kind;
	wait->begin_cpu = bpf_get_smp_processor_id();
	wait->flags = (samples_sleeper(state, lock, kind & (KIND_COUNT - 1), slow_path) ? SLEEP_SAMPLED : 0) |
		      (slow_path ? SLEEP_SLOW_PATH : 0);
	if (wait->flags & SLEEP_SAMPLED) {
		__u32 frames = walk_stacks(ctx, state, index * SLEEP_DEPTH + depth, false, slow_path);

		wait->frames.kernel = frames;
		wait->frames.user = frames >> 16;
		/* The walk is not in the wait. */
		state->begun_ns = 0;
	}
	slot->tgid = pid_tgid >> 32 | (slot->tgid & SLEEP_KEPT);
	if (record_holdings)
		note_owner(index * SLEEP_DEPTH + depth, lock, kind);
	wait->begin_ns = state->begun_ns ?: clock_now(state);
	/* The wait before its depth, for a reader on another CPU. */
	publish_depth(slot, depth + 1);
	return 0;
}

static __always_inline void record_sleep(void *ctx, struct cpu_state *state, __u32 cpu, struct sleep_wait *wait,
					 __u32 stack, __s32 result, __u64 now, bool held)
{
	struct ended_wait ended = {
		.lock = wait->lock,
		.begin_ns = wait->begin_ns,
		.wait_ns = waited(wait->begin_ns, now),
		.kind = wait->kind & (KIND_COUNT - 1),
		.cpu = cpu,
		.begin_cpu = wait->begin_cpu,
		.result = result,
		.stack = stack,
		.kernel_frames = wait->frames.kernel,
		.user_frames = wait->frames.user,
		.sampled = wait->flags & SLEEP_SAMPLED,
	};
	__u32 row_index;
	struct wait_row *row;

	if (!kind_recorded(ended.kind)) {
		count(state, COUNT_FILTERED, 1);
		return;
	}
	/* Looked for again: the waiter may have moved, and a mutex may have changed its kind. */
	row = find_row(state, ended.lock, ended.kind, &row_index, true);
	if (!row)
		return;
	ended.other_row = is_other_row(state, row_index);
	if (ended.other_row)
		count(state, COUNT_TABLE_FULL, 1);
	if (keeps_cpu())
		record_wait(ctx, state, row, &ended, false, held);
	else
		record_wait(ctx, state, row, &ended, true, held);
}

/*
 * The end of what begin_plain_sleeping() began, or of nothing.  False: it is more.  The clock is read before the looks,
 * as in begin_that_spins(); but a filter keeps begins out whose ends come here, and so
 * do the exits of slow paths (slow_path) whose wait the tracepoint inside has ended.  *clock: what it read, or 0.
 */
static __always_inline bool end_plain_sleeping(struct cpu_state *state, __u64 lock, __u32 slow_path, __u64 *clock)
{
	struct sleep_slot *slot;
	struct wait_row *row;
	__u64 now = *clock = 0, wait_ns;
	__u32 index, tid, bucket;

	if (!bpf_rdonly_cast)
		goto no_cast;
	if (!state->current_word)
		goto ask;
	tid = current_ids_by_word(state);
told:
	slot = sleeper_at(sleeper_home(state, tid));
	if (!slot)
		return false;
	if (slow_path || ~state->begin_kinds & (BEGIN_PLAIN_SLEEP | BEGIN_UNFILTERED))
		goto look;
	fetch_early(slot);
	now = *clock = bpf_ktime_get_ns();
look:
	if (slot->tid != tid)
		goto no_wait;
	if (slot->depth != 1 || slot->wait[0].lock != lock || slot->wait[0].flags != (SLEEP_PLAIN | slow_path))
		return slow_path && !slot->depth;
	if (!now)
		goto late;
timed:
	/* Above all thresholds if the clock went back. */
	wait_ns = now - slot->wait[0].begin_ns;
	index = slot->wait[0].row;
	/* The waiter may have moved: its row is then of another CPU. */
	if (index - state->row_base >= state->named_rows)
		goto moved;
look_at_row:
	row = row_at(index);
	if (!row || wait_ns >= state->threshold_ns)
		return false;
	/* And a mutex may have changed its kind, or have no row yet. */
	if (row->key != row_key(lock, slot->wait[0].kind))
		goto other_row;
add_to_row:
	if (wait_ns >= SHORT_WAIT_NS)
		goto long_wait;
	bucket = short_bucket(wait_ns);
add:
	if (keeps_cpu()) {
		add_wait(row, wait_ns, bucket, false);
		add_pending(row, wait_ns, false);
		barrier();
		row->waits++;
	} else {
		add_wait(row, wait_ns, bucket, true);
		add_pending(row, wait_ns, true);
		__sync_fetch_and_add(&row->waits, 1);
	}
	slot->depth = 0;
	if (!(slot->tgid & SLEEP_KEPT))
		goto release;
	return true;
release:
	publish(&slot->tid, 0);
	return true;
long_wait:
	bucket = histogram_bucket(wait_ns);
	goto add;
no_wait:
	/* It was filtered out, or its begin was lost. */
	if (slot->displaced || !state->current_word)
		return false;
	if (!slow_path)
		state->counters[COUNT_UNMATCHED]++;
	return true;
late:
	now = *clock = bpf_ktime_get_ns();
	goto timed;
moved:
	index = home_row(state, row_key(lock, slot->wait[0].kind));
	goto look_at_row;
other_row:
	row = row_at(home_row(state, row_key(lock, slot->wait[0].kind)));
	if (!row || !own_home(state, row, lock, slot->wait[0].kind))
		return false;
	goto add_to_row;
ask:
	tid = bpf_get_current_pid_tgid();
	goto told;
no_cast:
	TOLD_APART;
	tid = bpf_get_current_pid_tgid();
	goto told;
}

static __always_inline int end_any_sleeping(void *ctx, struct cpu_state *state, __u64 lock, __s32 result, __u64 now,
					    bool held)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 tid = bpf_get_current_pid_tgid(), depth;
	__s32 index = find_sleeper(tid);
	struct sleep_slot *slot;

	slot = index < 0 ? NULL : sleeper_at(index);
	if (!ctx || !state || !slot || !slot->depth)
		return 0;
	depth = (slot->depth - 1) & (SLEEP_DEPTH - 1);
	if (slot->wait[depth].lock != lock) {
		if (!depth || slot->wait[0].lock != lock)
			return 0;
		/* The wait inside this one lost its end. */
		count(state, COUNT_ORPHANED, depth);
		depth = 0;
	}
	depth = unknown(depth, lock) & (SLEEP_DEPTH - 1);
	/* Not before: an end whose begin was filtered out reads no clock. */
	record_sleep(ctx, state, cpu, &slot->wait[depth], index * SLEEP_DEPTH + depth, result, now ?: clock_now(state),
		     held);
	slot->depth = depth;
	if (!depth)
		release_sleeper(slot, index, tid);
	return 1;
}

/* 1 if the end belongs to a sleeping wait in flight.  now: the clock, if it was read already; else 0. */
static __noinline int end_sleeping(void *ctx, struct cpu_state *state, __u64 lock, __s32 result, __u64 now)
{
	return end_any_sleeping(ctx, state, lock, result, now, false);
}

/* The same behind stay_on_cpu(). */
static __noinline int end_sleeping_held(void *ctx, struct cpu_state *state, __u64 lock, __s32 result, __u64 now)
{
	return end_any_sleeping(ctx, state, lock, result, now, true);
}

#endif /* SLEEPING_BPF_H */
