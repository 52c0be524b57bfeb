// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "cli/hitm_options.h"
#include "cli/message.h"

#define DEFAULT_RATE 1000

int hitm_options_check(struct options *options)
{
	if (options->perf && !options->c2c) {
		message("--perf needs --c2c");
		return -EINVAL;
	}
	if (options->ldlat && !options->c2c && !options->hitm) {
		message("--ldlat needs --c2c or --hitm");
		return -EINVAL;
	}
	if ((options->hitm_rate || options->hitm_event || options->l3_misses) && !options->hitm) {
		message("%s needs --hitm", options->hitm_rate    ? "--hitm-rate"
					   : options->hitm_event ? "--hitm-event"
								 : "--l3-misses");
		return -EINVAL;
	}
	if (!options->hitm_rate)
		options->hitm_rate = DEFAULT_RATE;
	return 0;
}
