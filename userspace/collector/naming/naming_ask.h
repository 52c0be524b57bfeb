/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of code of other processes, for lockline's Python side, which opens none of their files. */
#ifndef LOCKLINE_NAMING_ASK_H
#define LOCKLINE_NAMING_ASK_H

#include <stdbool.h>

bool naming_ask_wanted(int argc, char **argv);

/*
 * `lockline-collect names`: gives the exit code.  Each line of standard input
 * is "PID ADDRESS", the address in hex.  Prints a line for each: how far
 * behind the symbol's begin, the path of the file, and the symbol, with tabs
 * between; the last two are empty where they are not known.  A character that
 * no name on a line can have is printed as '?'.
 */
int naming_ask_main(void);

#endif /* LOCKLINE_NAMING_ASK_H */
