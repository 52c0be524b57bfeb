// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "cli/import_options.h"
#include "cli/message.h"
#include "base/values.h"

int import_options_check(struct options *options, int argc, char **argv)
{
	static const char *const decoders[] = {
		[DECODER_AUTO] = "auto", [DECODER_NATIVE] = "native", [DECODER_PERF] = "perf"};
	char shown[VALUE_SHOWN];
	size_t decoder = 0;

	if (argc != 1) {
		message("`import` needs one perf.data file%s; see `lockline-collect import --help`",
			argc ? ", not several" : "");
		return -EINVAL;
	}
	if (!options->output) {
		message("`import` needs -o FILE, the recording to write");
		return -EINVAL;
	}
	if (!!options->kallsyms + !!options->system_map > 1) {
		message("--kallsyms and --system-map cannot be used together: leave one out");
		return -EINVAL;
	}
	while (decoder < sizeof(decoders) / sizeof(*decoders) && options->decoder_name &&
	       strcmp(options->decoder_name, decoders[decoder]))
		decoder++;
	if (decoder == sizeof(decoders) / sizeof(*decoders)) {
		message("--decoder %s: not native, perf or auto", show(options->decoder_name, shown));
		return -EINVAL;
	}
	options->decoder = decoder;
	options->input = argv[0];
	options->perf = options->perf ?: "perf";
	return 0;
}
