/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who may have taken the debug registers. */
#ifndef LOCKLINE_WATCH_TAKERS_H
#define LOCKLINE_WATCH_TAKERS_H

#include <stddef.h>

/*
 * A list for people: processes that hold perf events, and traced ones with
 * their tracers.  The kernel does not tell which of them has a register.
 */
void watch_takers(char *out, size_t size);

#endif /* LOCKLINE_WATCH_TAKERS_H */
