// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <zlib.h>

#include "kernel/kernel_config.h"

enum kernel_option kernel_config_read(const char *path, const char *name)
{
	enum kernel_option found = OPTION_OFF;
	size_t length = strlen(name), lines = 0;
	gzFile file = gzopen(path, "rbe");
	char line[1024];
	int failed = 0;

	if (!file)
		return OPTION_UNKNOWN;
	for (; gzgets(file, line, sizeof(line)); lines++)
		if (!strncmp(line, name, length) && line[length] == '=')
			found = line[length + 1] == 'y' ? OPTION_ON : OPTION_OFF;
	/* Cut short, or not gzip at all behind its first bytes. */
	gzerror(file, &failed);
	if (gzclose(file) != Z_OK || (failed && failed != Z_STREAM_END) || !lines)
		return OPTION_UNKNOWN;
	return found;
}

enum kernel_option kernel_config(const char *name)
{
	static const char *const places[] = {"/boot/config-%s", "/lib/modules/%s/config"};
	enum kernel_option found = kernel_config_read("/proc/config.gz", name);
	struct utsname kernel;
	char path[256];

	for (size_t i = 0; found == OPTION_UNKNOWN && !uname(&kernel) && i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), places[i], kernel.release);
		found = kernel_config_read(path, name);
	}
	return found;
}
