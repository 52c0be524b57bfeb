// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "bpf/futex.h"
#include "futex/futex_bucket_waits.h"
#include "recording/recording_rows.h"

int futex_bucket_waits_open(struct futex_bucket_waits *waits, struct bpf_map *map, __u32 cpus)
{
	waits->count = cpus * FUTEX_BUCKET_ROWS;
	waits->ids = calloc(waits->count, sizeof(*waits->ids));
	return waits->ids ? maps_map(&waits->rows, map) : -ENOMEM;
}

void futex_bucket_waits_close(struct futex_bucket_waits *waits)
{
	maps_unmap(&waits->rows);
	free(waits->ids);
}

/* Buckets are allocated: a lock of the kernel's image that lies as theirs do was waited for by an interrupt. */
static bool may_be_bucket(const struct known_lock *lock)
{
	return lock->source != NAME_SYMBOL && lock->source != NAME_PERCPU;
}

int futex_bucket_waits_store(struct futex_bucket_waits *waits, struct recording *recording, struct locks *locks,
			     struct futexes_known *known)
{
	int err = recording_clear(recording, TABLE_FUTEX_BUCKET);

	for (__u32 i = 0; !err && i < waits->count; i++) {
		const struct futex_bucket *bucket = (struct futex_bucket *)waits->rows.data + i;
		__u64 count = __atomic_load_n(&bucket->waits, __ATOMIC_ACQUIRE);
		struct known_lock *lock = count ? locks_find(locks, bucket->lock) : NULL;

		/* Without a row of its own, the lock is all those that have none. */
		if (!count || !lock || !may_be_bucket(lock))
			continue;
		/* These rows stay for good, also where their futex is long forgotten. */
		if (!waits->ids[i])
			waits->ids[i] =
				futexes_meet(known, bucket->tgid, bucket->address, bucket->flags & FUTEX_SHARED)->id;
		err = recording_put(recording, futex_bucket, .lock = lock->id, .futex = waits->ids[i], .waits = count,
				    .wait_ns = bucket->wait_ns, .max_ns = bucket->max_ns);
	}
	return err;
}
