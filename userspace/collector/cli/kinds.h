/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kinds of locks, as people write them. */
#ifndef LOCKLINE_KINDS_H
#define LOCKLINE_KINDS_H

#include <linux/types.h>

#include "base/values.h"
#include "bpf/lockline.h"

/* perf's words, by enum lock_kind, and one that perf does not have; NULL from KIND_END on. */
extern const char *const kind_names[KIND_COUNT];
#define KIND_MASK_ALL ((1u << KIND_END) - 1)

#define KIND_WORDS                                                                                               \
	"spinlock, rwlock[:R|:W], mutex, mutex-spin, rwsem[:R|:W], rtmutex, rwlock-rt[:R|:W], pcpu-sem[:R|:W], " \
	"semaphore, rqspinlock"

/* "mutex,rwsem:R"; a mask of 1 << enum lock_kind. */
int parse_kinds(const char *text, __u32 *out, char why[VALUE_WHY]);

#endif /* LOCKLINE_KINDS_H */
