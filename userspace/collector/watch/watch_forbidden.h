/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Variables that must not be watched: what runs in the exception of a watchpoint, or cannot be interrupted by it. */
#ifndef LOCKLINE_WATCH_FORBIDDEN_H
#define LOCKLINE_WATCH_FORBIDDEN_H

#include <linux/types.h>

#include "bpf/lockline.h"

/*
 * names: of the variable that each byte of the line belongs to, NULL: not known.
 * Mask of the eighths of the line that are forbidden, and why.
 */
__u32 watch_forbidden_places(const char *const names[CACHE_LINE], const char **why);

#endif /* LOCKLINE_WATCH_FORBIDDEN_H */
