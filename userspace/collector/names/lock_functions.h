/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which functions wait for or take locks, by name. */
#ifndef LOCKLINE_LOCK_FUNCTIONS_H
#define LOCKLINE_LOCK_FUNCTIONS_H

#include <stdbool.h>

/* True for a function that waits for or takes locks, or carries a probe: not a call site. */
bool symbol_is_lock_internal(const char *name);

#endif /* LOCKLINE_LOCK_FUNCTIONS_H */
