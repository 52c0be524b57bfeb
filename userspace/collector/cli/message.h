/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages for people, on stderr.  A message says what failed, why, and what to do. */
#ifndef LOCKLINE_MESSAGE_H
#define LOCKLINE_MESSAGE_H

#include <stdio.h>

#define message(format, ...) message_at("", format, ##__VA_ARGS__)
/* With a priority as the journal reads it, or "". */
#define message_at(priority, format, ...) fprintf(stderr, "%slockline: " format "\n", priority, ##__VA_ARGS__)

#endif /* LOCKLINE_MESSAGE_H */
