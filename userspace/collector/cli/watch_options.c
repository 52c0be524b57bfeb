// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/message.h"
#include "base/values.h"
#include "cli/watch_options.h"

#define LINE_BYTES    64
#define PLACE_BYTES   8
#define DEFAULT_SHARE 0.01

bool watch_takes_target(struct options *options, int argc, char **argv)
{
	if (options->command != COMMAND_WATCH || options->watch_target || options->watch_auto || optind >= argc ||
	    !strcmp(argv[optind - 1], "--"))
		return false;
	options->watch_target = argv[optind++];
	return true;
}

static int parse_places(struct options *options)
{
	struct id_list bytes = {};
	char why[VALUE_WHY], shown[VALUE_SHOWN];
	int err;

	if (!options->watch_offsets)
		return 0;
	err = parse_ids(options->watch_offsets, true, 0, LINE_BYTES - 1, LINE_BYTES, &bytes, why);
	if (err == -EINVAL)
		message("--offsets %s: %s", show(options->watch_offsets, shown), why);
	for (size_t i = 0; !err && i < bytes.count; i++)
		options->watch_places |= 1u << bytes.ids[i] / PLACE_BYTES;
	free(bytes.ids);
	return err;
}

static int parse_share(struct options *options)
{
	char shown[VALUE_SHOWN], *end;
	double percent;

	options->watch_share = options->watch_full ? 0 : DEFAULT_SHARE;
	if (!options->max_overhead)
		return 0;
	if (options->watch_full) {
		message("--full and --max-overhead cannot be used together: leave one out");
		return -EINVAL;
	}
	errno = 0;
	percent = strtod(options->max_overhead, &end);
	if (end > options->max_overhead && *end == '%')
		end++;
	if (errno || end == options->max_overhead || *end || !(percent >= 0.01) || percent > 100) {
		message("--max-overhead %s: not a percentage from 0.01 to 100", show(options->max_overhead, shown));
		return -EINVAL;
	}
	options->watch_share = percent / 100;
	return 0;
}

static int parse_access(struct options *options)
{
	static const char *const names[] = {
		[ACCESS_FROM_EITHER] = "auto",
		[ACCESS_FROM_INSTRUCTION] = "instruction",
		[ACCESS_FROM_WATCHPOINT] = "watchpoint",
	};
	char shown[VALUE_SHOWN];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (options->watch_access_name && strcmp(options->watch_access_name, names[i]))
			continue;
		options->watch_access_from = i;
		return 0;
	}
	message("--access %s: not instruction, watchpoint or auto", show(options->watch_access_name, shown));
	return -EINVAL;
}

int watch_options_check(struct options *options)
{
	int err;

	if (!options->watch_target && !options->watch_auto) {
		message("`watch` needs a TARGET, or --auto; a target is " WATCH_TARGET_FORMS);
		return -EINVAL;
	}
	if (options->watch_target && options->watch_auto) {
		message("--auto chooses the target itself: leave out --auto or the target");
		return -EINVAL;
	}
	if (options->watch_input && !options->watch_target) {
		message("-i needs a target of the form lock:NAME, a lock of that recording");
		return -EINVAL;
	}
	err = parse_share(options);
	err = err ?: parse_access(options);
	return err ?: parse_places(options);
}
