/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that reads the files of other processes in the collector's stead.
 * It is this program, started anew with one argument and one socket, without
 * privileges: see naming_sandbox.h.
 */
#ifndef LOCKLINE_NAMING_HELPER_H
#define LOCKLINE_NAMING_HELPER_H

#include <stdbool.h>

/* The argument: no command of users. */
#define NAMING_HELPER_ARGUMENT "--naming-helper"

/* Whether this program was started as the helper. */
bool naming_helper_wanted(int argc, char **argv);
/* Answers requests of standard input, which is the socket, until it ends; exit code. */
int naming_helper_main(void);

#endif /* LOCKLINE_NAMING_HELPER_H */
