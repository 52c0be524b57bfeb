// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names/build_id.h"

#define LARGEST 20

void build_id_text(const __u8 *id, size_t size, char out[64])
{
	*out = 0;
	for (size_t i = 0; i < size && i < LARGEST; i++)
		sprintf(out + 2 * i, "%02x", id[i]);
}

static int fits(int length, size_t size)
{
	return length > 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

int build_id_cache_path(const __u8 *id, size_t size, const char *kind, char *out, size_t out_size)
{
	const char *directory = getenv("PERF_BUILDID_DIR"), *home = getenv("HOME");
	char text[64];

	build_id_text(id, size, text);
	if (strlen(text) < 4 || (!directory && !home))
		return -ENOENT;
	return fits(snprintf(out, out_size, "%s%s/.build-id/%.2s/%s/%s", directory ?: home, directory ? "" : "/.debug",
			     text, text + 2, kind),
		    out_size);
}

int build_id_debug_path(const __u8 *id, size_t size, char *out, size_t out_size)
{
	char text[64];

	build_id_text(id, size, text);
	if (strlen(text) < 4)
		return -ENOENT;
	return fits(snprintf(out, out_size, "/usr/lib/debug/.build-id/%.2s/%s.debug", text, text + 2), out_size);
}
