/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One record of a perf.data file, and who takes it. */
#ifndef LOCKLINE_PERFDATA_RECORD_H
#define LOCKLINE_PERFDATA_RECORD_H

#include <stddef.h>
#include <linux/types.h>

struct perfdata_record_view {
	__u32 type;
	__u16 misc;
	const __u8 *body; /* what follows the header */
	size_t size;
	__u64 place; /* in the file; of the compressed record it came from */
};

/* A negative errno ends the reading. */
typedef int perfdata_record_function(void *context, const struct perfdata_record_view *record);

#endif /* LOCKLINE_PERFDATA_RECORD_H */
