/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instructions that touched a watched line: read where they are now, decoded once, named, stored. */
#ifndef LOCKLINE_WATCH_DECODING_H
#define LOCKLINE_WATCH_DECODING_H

#include <linux/types.h>

#include "names/lock_types.h"
#include "naming/user_symbols.h"
#include "base/hash_index.h"
#include "recording/recording.h"
#include "watch/watch_code.h"
#include "watch/watch_decoded.h"

struct watch_decoding;

int watch_decoding_open(struct watch_decoding **out, struct lock_names *names, const struct symbols *symbols,
			struct user_symbols *users, struct recording *recording, struct memory_budget *budget);
void watch_decoding_close(struct watch_decoding *decoding);
/*
 * What the record's instruction did to the `bytes` that were watched, as the disassembler knows it; what the
 * watchpoints said of it so far, the record's included; and its number in memory_code.
 */
int watch_decoding_find(struct watch_decoding *decoding, const struct watch_record *record, unsigned int bytes,
			struct watch_access *access, struct watch_kind *kind, __u32 *code);
/* The number of the record's task in memory_thread. */
int watch_decoding_thread(struct watch_decoding *decoding, const struct watch_record *record, __u32 *thread);

#endif /* LOCKLINE_WATCH_DECODING_H */
