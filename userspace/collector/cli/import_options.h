/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of `import`, as far as it is its own. */
#ifndef LOCKLINE_IMPORT_OPTIONS_H
#define LOCKLINE_IMPORT_OPTIONS_H

#include "cli/options.h"

/* argv: what stands beside the options.  Says what is wrong. */
int import_options_check(struct options *options, int argc, char **argv);

#endif /* LOCKLINE_IMPORT_OPTIONS_H */
