/* SPDX-License-Identifier: GPL-2.0 */
/* Waits for the lock of a futex hash bucket, joined with the futex whose call led there (record --futex). */
#ifndef BUCKET_BPF_H
#define BUCKET_BPF_H

#include "futex.bpf.h"
#include "futex_call.bpf.h"

/* Of a lock that lies where a bucket, which has cache lines of its own, has it. */
static __always_inline bool is_bucket_lock(__u64 lock, __u32 kind)
{
	if (kind != KIND_SPINLOCK && kind != KIND_RTMUTEX)
		return false;
	if (!bpf_core_field_exists(struct futex_hash_bucket, lock))
		return false;
	return (lock & (CACHE_LINE - 1)) == (bpf_core_field_offset(struct futex_hash_bucket, lock) & (CACHE_LINE - 1));
}

/*
 * The futex of the call that the current task is in: of a wake, the registers at its entry tell, as long as
 * they are those of a system call.  An interrupt there has no business with a bucket.
 */
static __always_inline bool futex_of_call(__u32 *tgid, __u32 *flags, __u64 *address)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct futex_slot *slot = find_futex_slot((__u32)pid_tgid);
	bool compat = is_compat();
	struct pt_regs *regs;

	if (slot) {
		*tgid = slot->tgid;
		*flags = slot->flags & FUTEX_SHARED;
		*address = slot->address;
		/* Else the compiler makes one load of this and that of the registers; the verifier wants one pointer for each. */
		barrier_var(*address);
		return !(slot->flags & FUTEX_PAUSED);
	}
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (!may_be_futex_call(call_number(regs)) || !is_futex_call(call_number(regs), compat))
		return false;
	*tgid = pid_tgid >> 32;
	*flags = 0;
	*address = call_argument(regs, compat, 0);
	return true;
}

/* A wait for a lock ended inside a futex call: with the lock held, and so with little ado. */
static __noinline int note_bucket_wait(__u64 lock, __u32 kind, __u64 wait_ns)
{
	__u32 cpu = bpf_get_smp_processor_id(), tgid, flags, index;
	struct futex_state *state = futex_state_of(cpu);
	__u64 key, address;

	if (!state || !is_bucket_lock(lock, kind))
		return 0;
	if (!futex_of_call(&tgid, &flags, &address))
		return 0;
	key = futex_row_key(tgid, address ^ lock << 8);
	index = key >> 32;
	count_futex(state, FUTEX_COUNT_BUCKETS);
	for (int probe = 0; probe < FUTEX_BUCKET_PROBES; probe++, index++) {
		__u32 at = cpu * FUTEX_BUCKET_ROWS + (index & (FUTEX_BUCKET_ROWS - 1));
		struct futex_bucket *bucket = bpf_map_lookup_elem(&futex_buckets, &at);

		if (!bucket)
			return 0;
		if (!bucket->key && !__sync_val_compare_and_swap(&bucket->key, 0, key)) {
			bucket->lock = lock;
			bucket->address = address;
			bucket->tgid = tgid;
			bucket->flags = flags;
		}
		if (bucket->key != key)
			continue;
		__sync_fetch_and_add(&bucket->wait_ns, wait_ns);
		if (wait_ns > bucket->max_ns)
			bucket->max_ns = wait_ns;
		__sync_fetch_and_add(&bucket->waits, 1);
		return 0;
	}
	count_futex(state, FUTEX_COUNT_NO_BUCKET);
	return 0;
}

#endif /* BUCKET_BPF_H */
