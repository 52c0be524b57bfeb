/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages for people, on stderr.  A message says what failed, why, and what to do. */
#ifndef LOCKLINE_MESSAGE_H
#define LOCKLINE_MESSAGE_H

#include <stdio.h>

#define message(format, ...) fprintf(stderr, "lockline: " format "\n", ##__VA_ARGS__)

#endif /* LOCKLINE_MESSAGE_H */
