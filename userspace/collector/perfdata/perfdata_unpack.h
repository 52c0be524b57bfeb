/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The zstd stream of COMPRESSED records: one for the whole file, its records cut anywhere. */
#ifndef LOCKLINE_PERFDATA_UNPACK_H
#define LOCKLINE_PERFDATA_UNPACK_H

#include <stdbool.h>

#include "perfdata/perfdata_record.h"

/* What one compressed record may hold, whatever the header says, and all of them in relation to their size. */
#define PERFDATA_UNPACKED_MAX   (64u << 20)
#define PERFDATA_UNPACKED_RATIO 200

struct perfdata_unpacker;

int perfdata_unpacker_open(struct perfdata_unpacker **out);
void perfdata_unpacker_close(struct perfdata_unpacker *unpacker);
/*
 * Unpacks one record's payload and hands on the records that are whole now.
 * -EBADMSG: no zstd data, or more than limit bytes of it; *why says it.  *unpacked grows by what came out.
 */
int perfdata_unpack(struct perfdata_unpacker *unpacker, const __u8 *packed, size_t size, __u64 limit, bool big,
		    __u64 place, perfdata_record_function *function, void *context, __u64 *unpacked, const char **why);
/* Bytes of a record that was begun and not ended. */
size_t perfdata_unpacker_rest(const struct perfdata_unpacker *unpacker);

#endif /* LOCKLINE_PERFDATA_UNPACK_H */
