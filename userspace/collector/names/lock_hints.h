/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tables of what kernel functions and slab caches deal with. */
#ifndef LOCKLINE_LOCK_HINTS_H
#define LOCKLINE_LOCK_HINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/lockline.h"

/* Struct type of a slab cache's objects where the names differ, and its module; NULL if not in the table. */
const char *hint_cache_type(const char *cache, const char **module);
/* The index-th struct that a function of that name may work on; NULL if there is none (left). */
const char *hint_function_type(const char *function, unsigned int index);
/* Name of the static lock that the function takes by that kind; NULL if not in the table. */
const char *hint_static_lock(const char *function, enum lock_kind kind);
/* The lock of an object anywhere in memory that a function takes, and no other of this kind; NULL: not known. */
const char *hint_object_lock(const char *function, enum lock_kind kind);
/* Calls visit with the name of each static lock of that table. */
void hint_each_static_lock(void (*visit)(const char *name, void *data), void *data);
/* Struct type of a static variable where the names differ; NULL if not in the table. */
const char *hint_variable_type(const char *variable);
/* True for a function of the futex code, whose spinlock is that of a hash bucket. */
bool hint_is_futex(const char *function, enum lock_kind kind);
/* True for a function of System V semaphores, whose spinlock is that of a semaphore or of its set. */
bool hint_is_semaphore(const char *function, enum lock_kind kind);

#endif /* LOCKLINE_LOCK_HINTS_H */
