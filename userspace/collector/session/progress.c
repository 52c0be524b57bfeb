// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "recording/recording_rows.h"
#include "session/progress.h"

#define DEFAULT_COLUMNS 80
#define MAX_LINE        256

void progress_open(struct progress *progress, const struct options *options)
{
	const char *terminal = getenv("TERM");

	/* COMMAND writes there too. */
	progress->shown = !options->quiet && !options->command_argv && isatty(STDERR_FILENO) && terminal &&
			  strcmp(terminal, "dumb");
}

static size_t columns(void)
{
	struct winsize size = {};

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? DEFAULT_COLUMNS : size.ws_col;
}

void progress_show(const struct progress *progress, struct recording *recording, __u64 elapsed_ns)
{
	char waits[MAX_LINE], line[MAX_LINE + 32];
	size_t width;

	if (!progress->shown || recording_progress(recording, waits, sizeof(waits)))
		return;
	width = columns();
	snprintf(line, sizeof(line), "%.1f s: %s", elapsed_ns / 1e9, waits);
	for (char *at = line; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	/* The last column would begin a new line. */
	if (width > 1 && strlen(line) >= width)
		line[width - 1] = '\0';
	/* Back at its begin: a message overwrites it. */
	fprintf(stderr, "\r\033[K%s\r", line);
	fflush(stderr);
}

void progress_clear(const struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
}
