/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef SLOW_PATH_COUNTER_H
#define SLOW_PATH_COUNTER_H

/*
 * What is counted: entries of native or queued_spin_lock_slowpath(), of its
 * paravirtual twin, of rwlock readers', of rwsem writers', and of percpu_down_write().
 */
enum function { SPIN, PARAVIRT_SPIN, READ, RWSEM_WRITE, PERCPU_WRITE, FUNCTIONS };

#endif /* SLOW_PATH_COUNTER_H */
