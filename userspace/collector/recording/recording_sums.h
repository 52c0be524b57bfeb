/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The waits of a recording by hour, for `lockline fleet add`, which reads hundreds of thousands of rows of each host. */
#ifndef LOCKLINE_RECORDING_SUMS_H
#define LOCKLINE_RECORDING_SUMS_H

#include <stdbool.h>

bool recording_sums_wanted(int argc, char **argv);

/*
 * `lockline-collect sums FILE LONGEST_NS`: gives the exit code.  Standard input
 * has a line "ID HOUR" for each interval, by id; the rows of others do not
 * count, nor those with negative figures or a wait longer than LONGEST_NS.
 * Prints, for an hour, lock and kind, the columns of LockSum after the hour, in
 * one or several lines, which add up.  Whatever is wrong with the recording is
 * exit code 1: who asked reads it in another way, and says what.
 */
int recording_sums_main(char **argv);

#endif /* LOCKLINE_RECORDING_SUMS_H */
