/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The per-CPU table of totals: how a row is found.  Open addressing; a full
 * table is found to be full by a look at one row (`crowded`, `reach`).  The
 * collector takes idle rows back when a table fills up (totals.c): a lock may
 * then have two rows for a while, because a free one is claimed before the one
 * behind it is seen.  Every wait is in one of them.  The last KIND_COUNT rows of a CPU take the waits for
 * which no row is left: their time is kept, the lock's name is lost.
 */
#ifndef TABLE_BPF_H
#define TABLE_BPF_H

#include "compat.bpf.h"
#include "current.bpf.h"
#include "state.bpf.h"

#define ROW_PROBES 16

static __always_inline struct wait_row *row_at(__u32 index)
{
	return bpf_map_lookup_elem(&totals, &index);
}

static __always_inline __u32 other_row(const struct cpu_state *state, __u32 kind)
{
	return state->row_base + state->named_rows + (kind & (KIND_COUNT - 1));
}

static __always_inline bool is_other_row(const struct cpu_state *state, __u32 index)
{
	return index >= state->row_base + state->named_rows;
}

static __always_inline bool set_owner(struct wait_row *row, __u64 lock, __u32 owner, __u64 object, __u64 size)
{
	__u64 offset = lock - object;

	if (!object || offset >= size)
		return false;
	row->owner_offset = offset;
	row->owner = owner;
	return true;
}

/* Whether the lock lies in an object of the waiter, which names it on every kernel. */
static __always_inline int find_owner(struct wait_row *row, __u64 lock, __u64 task)
{
	if (!row)
		return 0;
	row->owner_id = TASK_WORD(task, pid);
	if (set_owner(row, lock, OWNER_TASK, task, bpf_core_type_size(struct task_struct)))
		return 1;
	/* The thread may be gone when its lock gets a name. */
	row->owner_id = TASK_WORD(task, tgid);
	return set_owner(row, lock, OWNER_MM, TASK_WORD(task, mm), bpf_core_type_size(struct mm_struct)) ||
	       set_owner(row, lock, OWNER_SIGNAL, TASK_WORD(task, signal), bpf_core_type_size(struct signal_struct)) ||
	       set_owner(row, lock, OWNER_SIGHAND, TASK_WORD(task, sighand),
			 bpf_core_type_size(struct sighand_struct)) ||
	       set_owner(row, lock, OWNER_FILES, TASK_WORD(task, files), bpf_core_type_size(struct files_struct));
}

/* The row behind a home that another lock has, if it is the row of `key`, as most are: a search takes much longer. */
static __always_inline struct wait_row *next_row(const struct cpu_state *state, __u32 home, __u64 key)
{
	struct wait_row *row = row_at(home + 1);

	return row && row->key == key && !is_other_row(state, home + 1) ? row : NULL;
}

/* BPF's own spinlocks have the same home as others: a look there tells which it is. */
static __always_inline __u32 home_row(const struct cpu_state *state, __u64 key)
{
	__u64 hash;

	if (row_kind(key) == KIND_RQSPINLOCK)
		key ^= KIND_RQSPINLOCK ^ KIND_SPINLOCK;
	hash = (key >> 10 ^ key) * 0x9e3779b97f4a7c15ull >> 32;

	return state->row_base + (hash * state->named_rows >> 32);
}

/* A look for a row that is not at home. */
struct row_search {
	struct cpu_state *state;
	struct wait_row *home;
	__u64 key;
	__u32 index;
	__u32 found;
	bool claim;
	bool claimed;
};

/* Of search_row(): neither an index. */
#define ROW_CAN_BE_CLAIMED (~0u)
#define ROW_NO_PLACE       (~0u - 1)

/* Atomic: a program that interrupts this one may claim it too. */
static __always_inline void claim_row(struct row_search *search, struct wait_row *row)
{
	search->claimed = !__sync_val_compare_and_swap(&row->key, 0, search->key);
}

/* Apart from the search: the verifier would walk it for each way there. */
static __noinline int begin_row(struct cpu_state *state, struct wait_row *row, __u64 lock)
{
	if (!state || !row)
		return 0;
	__sync_fetch_and_add(&state->rows_used, 1);
	if (!state->current_word)
		adopt_current_word(state);
	return find_owner(row, lock, current_address(state));
}

static long look_at_row(__u32 turn, struct row_search *search)
{
	struct wait_row *row, *home = search->home;
	struct cpu_state *state = search->state;
	__u32 probe = turn + 1; /* whoever searches has looked at home */

	if (++search->index >= state->row_base + state->named_rows)
		search->index = state->row_base;
	row = row_at(search->index);
	if (!row || (home->crowded && probe > home->reach))
		return 1;
	if (!row->key) {
		if (!search->claim) {
			search->found = ROW_CAN_BE_CLAIMED;
			return 1;
		}
		claim_row(search, row);
		if (search->claimed && probe > home->reach)
			home->reach = probe;
	}
	if (row->key == search->key) {
		search->found = search->index;
		return 1;
	}
	return 0;
}

/*
 * In a loop of the kernel's, whose body it verifies once: bpf_loop(), 5.17 (e6f2dd0f8067).  Unrolled, the verifier
 * walked 100,000 instructions at each start.
 */
static __always_inline __u32 search_all_rows(struct cpu_state *state, __u64 lock, __u32 kind, bool claim)
{
	struct row_search search = {.state = state, .key = row_key(lock, kind), .found = ROW_NO_PLACE, .claim = claim};

	if (!state)
		return ROW_NO_PLACE;
	search.index = home_row(state, search.key);
	search.home = row_at(search.index);
	if (!search.home)
		return ROW_NO_PLACE;
	if (!search.home->key) {
		if (!claim)
			return ROW_CAN_BE_CLAIMED;
		claim_row(&search, search.home);
	}
	if (search.home->key == search.key)
		search.found = search.index;
	else if (!search.home->crowded || search.home->reach)
		bpf_loop(ROW_PROBES - 1, look_at_row, &search, 0);
	if (search.claimed)
		begin_row(state, row_at(search.found), lock);
	return search.found;
}

/* In search.bpf.h: the verifier walks it once, and not for each way there, which was half of its work at each start. */
__u32 search_rows_once(struct cpu_state *state, __u64 lock, __u32 kind, bool claim);

static __noinline __u32 search_rows_here(struct cpu_state *state, __u64 lock, __u32 kind, bool claim)
{
	return search_all_rows(state, lock, kind, claim);
}

/* held: behind stay_on_cpu(), where no function may be called that is VERIFIED_ONCE. */
static __always_inline __u32 search_rows(struct cpu_state *state, __u64 lock, __u32 kind, bool claim, bool held)
{
	return held ? search_rows_here(state, lock, kind, claim) : search_rows_once(state, lock, kind, claim);
}

/* Index of the row of (lock, kind) when it is not at home: found, or claimed, or the row of unnamed locks. */
static __always_inline __u32 probe_rows(struct cpu_state *state, __u64 lock, __u32 kind, bool held)
{
	__u32 index = search_rows(state, lock, kind, true, held);
	struct wait_row *home;

	if (index != ROW_NO_PLACE)
		return index;
	home = row_at(home_row(state, row_key(lock, kind)));
	if (home)
		home->crowded = 1;
	return other_row(state, kind);
}

/* As probe_rows(), but claims none. */
static __always_inline __u32 search_row(struct cpu_state *state, __u64 lock, __u32 kind, bool held)
{
	return search_rows(state, lock, kind, false, held);
}

/* Whether the look at one row says that the lock of `key` has none, nor a place for one. */
static __always_inline bool is_shut_out(const struct wait_row *home, __u64 key)
{
	return home->crowded && !home->reach && home->key && home->key != key;
}

/* As probe_rows(), with the short way home in line: nearly every wait takes it. */
static __always_inline struct wait_row *find_row(struct cpu_state *state, __u64 lock, __u32 kind, __u32 *index,
						 bool held)
{
	__u64 key = row_key(lock, kind);
	struct wait_row *row;

	*index = home_row(state, key);
	row = row_at(*index);
	if (row && row->key == key)
		return row;
	*index = probe_rows(state, lock, kind, held);
	return row_at(*index);
}

#endif /* TABLE_BPF_H */
