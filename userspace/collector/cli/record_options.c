// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/online_cpus.h"
#include "base/small_file.h"
#include "base/values.h"
#include "cli/hitm_options.h"
#include "cli/message.h"
#include "cli/record_options.h"
#include "cli/until.h"

#define DEFAULT_SAVES 8

/* -C names CPUs that this machine has; a typo would record nothing in silence. */
static int check_cpus(const struct options *options)
{
	struct id_list present = {};
	char text[4096], why[VALUE_WHY];
	int err = 0;

	/* Without it, in a sandbox without sysfs, the range in the table still holds. */
	if (!options->cpus.count || first_line(PRESENT_CPUS, text, sizeof(text)))
		return 0;
	if (parse_ids(text, true, 0, MAX_CPUS - 1, MAX_CPUS, &present, why))
		goto out;
	for (size_t i = 0; i < options->cpus.count; i++) {
		if (!id_list_has(&present, options->cpus.ids[i])) {
			message("-C: there is no CPU %u; the CPUs of this machine are %s", options->cpus.ids[i], text);
			err = -EINVAL;
			goto out;
		}
	}
out:
	free(present.ids);
	return err;
}

int record_options_check(struct options *options)
{
	bool named = options_name_container(options);
	bool chosen = options->pids.count || options->tids.count || options->cgroup || named;
	char shown[VALUE_SHOWN];
	const char *filter = options->pids.count   ? "-p"
			     : options->tids.count ? "-t"
			     : options->cgroup     ? "-G"
			     : options->container  ? "--container"
						   : "--pod";

	if (options->all && chosen) {
		message("-a and %s cannot be used together: -a records every process; leave one out", filter);
		return -EINVAL;
	}
	if (options->cgroup && named) {
		message("-G and %s cannot be used together: both choose a cgroup; leave one out",
			options->container ? "--container" : "--pod");
		return -EINVAL;
	}
	if (options->pod && (!strchr(options->pod, '/') || options->pod[0] == '/')) {
		message("--pod %s: write it as NAMESPACE/NAME", show(options->pod, shown));
		return -EINVAL;
	}
	if (options->command_argv && chosen) {
		message("%s and COMMAND cannot be used together: COMMAND is what would be recorded; "
			"use %s with -d TIME, or -a -- COMMAND",
			filter, filter);
		return -EINVAL;
	}
	if (options->command_argv && options->sizes_only) {
		message("--sizes records nothing: leave COMMAND out");
		return -EINVAL;
	}
	if (options->go &&
	    (!options->futex || (!options->pids.count && !options->command_argv && !options->sizes_only))) {
		message("--go needs --futex and -p PID or COMMAND: it puts probes into the programs of these "
			"processes");
		return -EINVAL;
	}
	if (options->futex_stacks && !options->futex) {
		message("--futex-stacks needs --futex");
		return -EINVAL;
	}
	if (options->go_traps && !options->go) {
		message("--go-traps needs --go");
		return -EINVAL;
	}
	if (hitm_options_check(options))
		return -EINVAL;
	if (!options->perf)
		options->perf = "perf";
	if (options->possible_cpus && !options->sizes_only) {
		message("--possible-cpus needs --sizes: a recording uses the machine's own CPUs");
		return -EINVAL;
	}
	if ((options->keep_ns || options->max_bytes) && options->flight) {
		message("--flight keeps only its last seconds: leave out --keep and --max-size");
		return -EINVAL;
	}
	if (options->self_check_ns && options->flight) {
		message("--self-check and --flight cannot be used together: a flight does not switch its probes; leave "
			"one out");
		return -EINVAL;
	}
	options->holders |= options->holds;
	options->episodes |= options->flight;
	if (options->until) {
		struct until until;
		char why[VALUE_WHY];

		if (until_parse(&until, options->until, why)) {
			message("--until %s: %s", show(options->until, shown), why);
			return -EINVAL;
		}
		/* A wait is looked at one by one from the threshold on. */
		if (until_least_wait(&until) < options->threshold_ns)
			options->threshold_ns = until_least_wait(&until);
	}
	if (options->save_last_ns && (!options->until || options->flight)) {
		message("--save-last needs --until, and cannot be used with --flight: it saves a part when the "
			"condition holds");
		return -EINVAL;
	}
	if (options->saves && !options->save_last_ns) {
		message("--saves needs --save-last: it says how many parts to keep");
		return -EINVAL;
	}
	if (!options->saves)
		options->saves = DEFAULT_SAVES;
	if (!chosen && !options->command_argv)
		options->all = true;
	return check_cpus(options);
}
