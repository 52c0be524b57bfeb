/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hits of a kprobe that ran no program. */
#ifndef LOCKLINE_KPROBE_MISSES_H
#define LOCKLINE_KPROBE_MISSES_H

#include <linux/types.h>

/*
 * Hits that the kernel passed over since the kprobe was attached, because another kprobe ran on that CPU, or
 * because a return found no slot.  link_fd: of a BPF link to a kprobe or kretprobe.  Since 6.7 (3acf8ace6823);
 * -EOPNOTSUPP: this kernel does not tell.  Skipped runs of a hit kprobe's program are the program's
 * recursion_misses, likewise since 6.7 (dd8657894c11).
 */
int kprobe_misses(int link_fd, __u64 *misses);

#endif /* LOCKLINE_KPROBE_MISSES_H */
