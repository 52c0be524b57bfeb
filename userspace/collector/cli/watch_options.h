/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of `watch`, as far as it is its own. */
#ifndef LOCKLINE_WATCH_OPTIONS_H
#define LOCKLINE_WATCH_OPTIONS_H

#include "cli/options.h"

#define WATCH_TARGET_FORMS                                                                            \
	"lock:NAME (with -i RECORDING), SYMBOL[.MEMBER][+OFFSET], VARIABLE[.MEMBER]:CPU, 0xADDRESS, " \
	"task:PID.MEMBER, user:PID:ADDRESS|SYMBOL[+OFFSET] or futex: likewise (its hash bucket)"

/* getopt stopped at a word: true if that is the TARGET, and more options may follow. */
bool watch_takes_target(struct options *options, int argc, char **argv);
/* Says what is wrong. */
int watch_options_check(struct options *options);

#endif /* LOCKLINE_WATCH_OPTIONS_H */
