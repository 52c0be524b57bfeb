/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Command line of lockline-collect: one table gives parsing, range checks and --help. */
#ifndef LOCKLINE_COMMAND_LINE_H
#define LOCKLINE_COMMAND_LINE_H

#include "cli/options.h"

/*
 * 0: go on; 1: done (--help, --version printed to stdout); negative: refused,
 * one line on stderr says why.  Strings point into argv.
 */
int options_parse(struct options *options, int argc, char **argv);
void options_free(struct options *options);

#endif /* LOCKLINE_COMMAND_LINE_H */
