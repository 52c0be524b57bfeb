/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of code and variables of a machine that need not be this one: each
 * source is used only if it is known to be of the kernel or the file meant.
 */
#ifndef LOCKLINE_MEMORY_SYMBOLS_H
#define LOCKLINE_MEMORY_SYMBOLS_H

#include "memory/memory_tasks.h"
#include "names/symbols.h"

struct naming_client;

struct memory_symbol_sources {
	const struct symbols *running; /* of the very kernel and boot; the caller keeps them; or NULL */
	const char *kallsyms;          /* --kallsyms FILE or NULL */
	const char *system_map;        /* --system-map FILE or NULL */
	const char *recording;         /* --recording FILE or NULL */
	const char *symfs;             /* --symfs DIR or NULL */
	struct naming_client *client;  /* reads files of processes that live; NULL: a file of samples is imported */
	bool source_lines;
	const char *hostname; /* of the source; "" if not known */
	const char *release;
	__u64 written_ns; /* when the source was written, time of day; 0: not known */
};

struct recorded_symbols;

/* For those who look up; none of it is theirs to change. */
struct memory_symbols {
	struct memory_symbol_sources sources;
	const struct symbols *kernel; /* NULL: none */
	struct symbols *opened;       /* the same, if it is not the caller's */
	__u64 shift;                  /* from the table's addresses to the source's */
	struct recorded_symbols *recorded;
	char kernel_source[128];
};

/* kernel's build id may be empty.  Fails with a message if a file that was asked for cannot be used. */
int memory_symbols_open(struct memory_symbols **out, const struct memory_symbol_sources *sources,
			const struct memory_kernel *kernel);
void memory_symbols_close(struct memory_symbols *symbols);
/* Where the kernel's symbols are from, or why there are none; for people. */
const char *memory_symbols_kernel_source(const struct memory_symbols *symbols);
/* module: the object's name at this address, or NULL.  -ENOENT: not known. */
int memory_symbols_kernel(const struct memory_symbols *symbols, __u64 address, const char *module, struct symbol *out);

#endif /* LOCKLINE_MEMORY_SYMBOLS_H */
