// SPDX-License-Identifier: GPL-2.0-or-later
/* lockline-collect: records lock waits, imports memory samples, tells what this kernel offers, or its types. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel/cpu_pairs.h"
#include "cli/message.h"
#include "cli/command_line.h"
#include "names/btf_members.h"
#include "perfdata/perfdata_import.h"
#include "kernel/plan_json.h"
#include "kernel/plan_make.h"
#include "containers/cgroup_ask.h"
#include "naming/naming_ask.h"
#include "base/patience.h"
#include "helper/naming_helper.h"
#include "recording/recording_sums.h"
#include "session/privileges.h"
#include "session/session.h"
#include "session/session_sizes.h"
#include "types/types_dwarf.h"
#include "types/types_json.h"

static int doctor(const struct options *options)
{
	struct cpu_pairs *pairs = NULL;
	struct symbols *symbols = NULL;
	struct types *types = NULL;
	char kept[PLAN_TEXT];
	struct plan plan;
	int err = symbols_open(&symbols);

	if (err)
		message("cannot read the kernel's symbols: %s", strerror(-err));
	err = plan_make(&plan, options, symbols, &types);
	if (!err) {
		privileges_expected(options, kept, sizeof(kept));
		plan_put_fact(&plan, "privileges_kept", kept);
	}
	if (!err && options->deep)
		err = cpu_pairs_open(&pairs, DEEP_NS);
	if (!err)
		plan_print_json(&plan, pairs);
	cpu_pairs_close(pairs);
	types_close(types);
	symbols_close(symbols);
	return err;
}

/* What the shell closed (`>&-`) is no place for files that are opened, and output to it fails as any other. */
static void fill_closed_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* What was printed may not have been written: a full disk, or a reader that is gone. */
static int end_output(int err)
{
	if (!fflush(stdout) && !ferror(stdout))
		return err;
	message("cannot write the output: %m");
	return err ?: -EIO;
}

int main(int argc, char **argv)
{
	struct options options;
	int err;

	if (patience_reader_wanted(argc, argv))
		return patience_reader_main();
	if (naming_helper_wanted(argc, argv))
		return naming_helper_main();
	if (recording_sums_wanted(argc, argv))
		return recording_sums_main(argv);
	if (naming_ask_wanted(argc, argv))
		return naming_ask_main();
	if (cgroup_ask_wanted(argc, argv))
		return cgroup_ask_main(argv);
	fill_closed_descriptors();
	err = options_parse(&options, argc, argv);
	if (err)
		return end_output(err < 0) != 0;
	if (options.command == COMMAND_DOCTOR)
		err = doctor(&options);
	else if (options.command == COMMAND_TYPES)
		err = options.program ? types_print_dwarf(&options) : types_print_json(&options);
	else if (options.command == COMMAND_IMPORT)
		err = perfdata_import(&options);
	else if (options.sizes_only)
		err = session_sizes(&options);
	else
		err = session_record(&options);
	options_free(&options);
	err = end_output(err);
	return err < 0 ? 1 : err;
}
