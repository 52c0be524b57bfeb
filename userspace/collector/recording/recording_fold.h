/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks, locks, futexes and cgroups that are gone, of a recording that goes on
 * for days: they become one for all of a name, and the lightest of those one for
 * all others.  Sums stay what they were.
 */
#ifndef LOCKLINE_RECORDING_FOLD_H
#define LOCKLINE_RECORDING_FOLD_H

#include <linux/types.h>

#include "recording/recording.h"

int recording_fold_begin(struct recording *recording);
/* The collector will not write this lock's, or futex's, totals again. */
int recording_forgot_lock(struct recording *recording, __s64 lock);
int recording_forgot_futex(struct recording *recording, __s64 futex);
/* Of each kind so many may stand for themselves.  After recording_fold_begin(). */
int recording_fold(struct recording *recording, __u32 most);

#endif /* LOCKLINE_RECORDING_FOLD_H */
