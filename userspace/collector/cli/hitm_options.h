/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of --c2c and --hitm. */
#ifndef LOCKLINE_HITM_OPTIONS_H
#define LOCKLINE_HITM_OPTIONS_H

#include "cli/options.h"

/* Those that are for one of them alone, and what they are without being said. */
int hitm_options_check(struct options *options);

#endif /* LOCKLINE_HITM_OPTIONS_H */
