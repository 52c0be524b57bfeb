// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>

#include <bpf/libbpf.h>
/* From 5 on capstone has an enum of this name; the kernel has a struct, which libbpf's header names. */
#define bpf_insn capstone_bpf_insn
#include <capstone/capstone.h>
#undef bpf_insn
#include <elfutils/version.h>
#include <sqlite3.h>
#include <zlib.h>
#include <zstd.h>

#include "cli/version.h"

#if defined(__x86_64__)
#define BUILT_FOR "x86_64"
#elif defined(__aarch64__)
#define BUILT_FOR "aarch64"
#else
#define BUILT_FOR "unknown"
#endif

void print_version(void)
{
	int major, minor;

	cs_version(&major, &minor);
	printf("lockline %s\n", LOCKLINE_VERSION);
	printf("for %s, with libbpf %u.%u, sqlite %s, elfutils %d.%d, capstone %d.%d, zlib %s, zstd %s\n", BUILT_FOR,
	       libbpf_major_version(), libbpf_minor_version(), sqlite3_libversion(), _ELFUTILS_VERSION / 1000,
	       _ELFUTILS_VERSION % 1000, major, minor, zlibVersion(), ZSTD_versionString());
}
