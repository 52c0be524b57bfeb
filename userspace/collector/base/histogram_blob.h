/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A histogram as recording.sql has it: uint16 bucket and uint32 count for each bucket in use. */
#ifndef LOCKLINE_HISTOGRAM_BLOB_H
#define LOCKLINE_HISTOGRAM_BLOB_H

#include <stdint.h>
#include <linux/types.h>

#include "bpf/lockline.h"

#define HISTOGRAM_ENTRY       6
#define HISTOGRAM_MAX_ENTRIES (HISTOGRAM_BUCKETS * 4)

struct histogram_blob {
	unsigned char bytes[HISTOGRAM_MAX_ENTRIES * HISTOGRAM_ENTRY];
	int size;
};

/* Counts beyond 2^32 take further entries. */
static inline void histogram_put(struct histogram_blob *blob, __u32 bucket, __u64 count)
{
	while (count && blob->size < (int)sizeof(blob->bytes)) {
		__u32 part = count > UINT32_MAX ? UINT32_MAX : count;
		unsigned char *entry = blob->bytes + blob->size;

		entry[0] = bucket;
		entry[1] = bucket >> 8;
		for (int i = 0; i < 4; i++)
			entry[2 + i] = part >> (8 * i);
		blob->size += HISTOGRAM_ENTRY;
		count -= part;
	}
}

#endif /* LOCKLINE_HISTOGRAM_BLOB_H */
