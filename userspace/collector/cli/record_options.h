/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of a recording. */
#ifndef LOCKLINE_RECORD_OPTIONS_H
#define LOCKLINE_RECORD_OPTIONS_H

#include "cli/options.h"

/* Those that exclude or need each other, and what they are without being said. */
int record_options_check(struct options *options);

#endif /* LOCKLINE_RECORD_OPTIONS_H */
