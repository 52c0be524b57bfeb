/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which futexes' calls wait for the locks of the kernel's hash buckets. */
#ifndef LOCKLINE_FUTEX_BUCKET_WAITS_H
#define LOCKLINE_FUTEX_BUCKET_WAITS_H

#include "futex/futexes_known.h"
#include "probes/maps.h"
#include "recording/recording.h"
#include "waits/locks.h"

struct futex_bucket_waits {
	struct mapped_array rows;
	__u32 count;
	__s64 *ids; /* per row: its futex in the recording */
};

int futex_bucket_waits_open(struct futex_bucket_waits *waits, struct bpf_map *map, __u32 cpus);
void futex_bucket_waits_close(struct futex_bucket_waits *waits);
/* Stores what there is by now, in place of what was stored before. */
int futex_bucket_waits_store(struct futex_bucket_waits *waits, struct recording *recording, struct locks *locks,
			     struct futexes_known *known);

#endif /* LOCKLINE_FUTEX_BUCKET_WAITS_H */
