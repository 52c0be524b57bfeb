/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the collector keeps of each futex. */
#ifndef LOCKLINE_FUTEXES_KNOWN_H
#define LOCKLINE_FUTEXES_KNOWN_H

#include <stdbool.h>

#include "bpf/futex.h"
#include "futex/futex_names.h"

/* A futex, and what was found out about it besides the programs' figures. */
struct futex {
	__u64 address;
	__u32 tgid;
	bool shared;
	__u32 same_as; /* index + 1 of the one that it is by another address */
	struct futex_place place;
	__u64 owner_samples;
	__u64 owners;  /* samples in which a live thread of the process held it */
	__u64 threads; /* samples that waited for the word to change from a live thread's id */
	__u64 stored;  /* calls and wakes when it was stored last */
	__u32 open_waits;
	__u32 open_stored;
	__u64 oldest_ns;
	struct futex_row sum;
};

/* Of a hash of twice as many entries, each an index + 1. */
#define FUTEX_KNOWN_BYTES (sizeof(struct futex) + 2 * sizeof(__u32))

#endif /* LOCKLINE_FUTEXES_KNOWN_H */
