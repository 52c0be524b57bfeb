/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many samples are summed by a thread of their own while the next ones are read
 * and decoded, which takes a quarter of an import's time.  They are summed one
 * after the other, in the order of one thread: the sums are the same.
 */
#ifndef LOCKLINE_PERFDATA_BESIDE_H
#define LOCKLINE_PERFDATA_BESIDE_H

#include "perfdata/perfdata_sums.h"

/* As perfdata_sums_samples(), but that they may be summed later.  An error of those before may come with it. */
int perfdata_beside_samples(void *context, const struct memory_sample *samples, __u32 count);
/* Until all of them are summed: names and mappings may change then.  0, or the negative errno of one of them. */
int perfdata_beside_wait(struct perfdata_import *import);
/* Likewise, and ends the thread. */
int perfdata_beside_end(struct perfdata_import *import);

#endif /* LOCKLINE_PERFDATA_BESIDE_H */
