/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The per-CPU table of totals: how a row is found.  Open addressing; a row,
 * once claimed, stays.  The last KIND_COUNT rows of a CPU take the waits for
 * which no row is left: their time is kept, the lock's name is lost.
 */
#ifndef TABLE_BPF_H
#define TABLE_BPF_H

#include "state.bpf.h"
#include "compat.bpf.h"

#define ROW_PROBES 16

static __always_inline struct wait_row *row_at(__u32 cpu, __u32 row)
{
	__u32 index = cpu * rows_per_cpu + row;

	return bpf_map_lookup_elem(&totals, &index);
}

static __always_inline __u32 other_row(__u32 kind)
{
	return rows_per_cpu - KIND_COUNT + (kind & (KIND_COUNT - 1));
}

static __always_inline bool is_other_row(__u32 row)
{
	return row >= rows_per_cpu - KIND_COUNT;
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
static __noinline int find_owner(struct wait_row *row, __u64 lock)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!row)
		return 0;
	row->owner_tid = BPF_CORE_READ(task, pid);
	return set_owner(row, lock, OWNER_TASK, (__u64)task, bpf_core_type_size(struct task_struct)) ||
	       set_owner(row, lock, OWNER_MM, (__u64)BPF_CORE_READ(task, mm), bpf_core_type_size(struct mm_struct)) ||
	       set_owner(row, lock, OWNER_SIGNAL, (__u64)BPF_CORE_READ(task, signal),
			 bpf_core_type_size(struct signal_struct)) ||
	       set_owner(row, lock, OWNER_SIGHAND, (__u64)BPF_CORE_READ(task, sighand),
			 bpf_core_type_size(struct sighand_struct)) ||
	       set_owner(row, lock, OWNER_FILES, (__u64)BPF_CORE_READ(task, files),
			 bpf_core_type_size(struct files_struct));
}

static __always_inline __u32 home_row(__u64 key)
{
	__u64 hash = (key >> 10 ^ key) * 0x9e3779b97f4a7c15ull >> 32;

	return hash * (rows_per_cpu - KIND_COUNT) >> 32;
}

/* The row of (lock, kind) when it is not at home: found, or claimed, or the row of unnamed locks. */
static __noinline __u32 probe_rows(struct cpu_state *state, __u32 cpu, __u64 lock, __u32 kind)
{
	__u64 key = row_key(lock, kind);
	__u32 row = home_row(key);

	if (!state)
		return 0;
	for (int probe = 0; probe < ROW_PROBES; probe++) {
		struct wait_row *found = row_at(cpu, row);

		if (!found)
			break;
		if (found->key == key)
			return row;
		/* Atomic: a program that interrupts this one may claim it too. */
		if (!found->key && !__sync_val_compare_and_swap(&found->key, 0, key)) {
			__sync_fetch_and_add(&state->rows_used, 1);
			find_owner(found, lock);
			return row;
		}
		if (found->key == key)
			return row;
		if (++row >= rows_per_cpu - KIND_COUNT)
			row = 0;
	}
	return other_row(kind);
}

static __always_inline __u32 find_row(struct cpu_state *state, __u32 cpu, __u64 lock, __u32 kind)
{
	__u64 key = row_key(lock, kind);
	__u32 home = home_row(key);
	struct wait_row *row = row_at(cpu, home);

	return row && row->key == key ? home : probe_rows(state, cpu, lock, kind);
}

#endif /* TABLE_BPF_H */
