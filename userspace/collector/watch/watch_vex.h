/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86-64 instructions with a VEX or EVEX prefix that capstone 4 does not know,
 * as most of AVX-512: their length, and the memory that they touch.  By the
 * encoding tables of the Intel SDM, volume 2, 2.3, 2.7 and appendix A.
 */
#ifndef LOCKLINE_WATCH_VEX_H
#define LOCKLINE_WATCH_VEX_H

#include <stddef.h>

#include "watch/watch_instruction.h"

/* False: there is no such instruction at the begin of text. */
bool watch_vex_decode(const __u8 *text, size_t size, __u64 address, struct watch_instruction *out);

#endif /* LOCKLINE_WATCH_VEX_H */
