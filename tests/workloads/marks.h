/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * By what a program in an emulated guest tells tests/vm/coherence, the plugin that follows its cache lines, when to
 * count: by a write to the Nth byte of a page at this address phase N begins, and with N = 0 it ends.
 */
#ifndef MARKS_H
#define MARKS_H

#define MARKS       0x10c400000000ull
#define MARKS_SIZE  4096
#define MOST_PHASES 255

#endif /* MARKS_H */
