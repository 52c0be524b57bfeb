/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where files are found by build id. */
#ifndef LOCKLINE_BUILD_ID_H
#define LOCKLINE_BUILD_ID_H

#include <stddef.h>
#include <linux/types.h>

/* perf's cache: $PERF_BUILDID_DIR or ~/.debug; kind: "elf", "kallsyms", "vmlinux".  -ENOENT: there is no such place. */
int build_id_cache_path(const __u8 *id, size_t size, const char *kind, char *out, size_t out_size);
/* Debug symbols as distributions install them. */
int build_id_debug_path(const __u8 *id, size_t size, char *out, size_t out_size);
void build_id_text(const __u8 *id, size_t size, char out[64]);

#endif /* LOCKLINE_BUILD_ID_H */
