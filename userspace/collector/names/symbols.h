/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's symbols: /proc/kallsyms, sorted, in one arena.  All functions return 0 or a negative errno unless
 * stated otherwise.
 */
#ifndef LOCKLINE_SYMBOLS_H
#define LOCKLINE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct symbols;

struct symbol {
	const char *name;   /* lives as long as the table; "" if unknown */
	const char *module; /* "" for the kernel image */
	__u64 address;
	__u64 offset; /* of the looked-up address in the symbol */
	char type;    /* as in kallsyms: t, T, d, D, b, B, ... */
};

int symbols_open(struct symbols **out);
void symbols_close(struct symbols *symbols);
/* The symbol that holds address; -ENOENT if none does. */
int symbols_lookup(const struct symbols *symbols, __u64 address, struct symbol *out);
/* Address of a symbol of the kernel image by exact name; -ENOENT, or -EPERM if kptr_restrict hides it. */
int symbols_address(const struct symbols *symbols, const char *name, __u64 *out);
bool symbols_have_data(const struct symbols *symbols); /* CONFIG_KALLSYMS_ALL */
bool symbols_hidden(const struct symbols *symbols);    /* all addresses read as 0 */
/* Calls visit for every symbol, by address, with the address of the next one's begin, until it returns nonzero. */
int symbols_each(const struct symbols *symbols, int (*visit)(const struct symbol *symbol, __u64 end, void *data),
		 void *data);
size_t symbols_bytes(const struct symbols *symbols);
/* As symbols_open(), from a file in the format of /proc/kallsyms. */
int symbols_open_file(struct symbols **out, const char *path);
/* By the kernel's own sections for locks and scheduling where they are marked, else by name. */
bool symbols_is_lock_internal(const struct symbols *symbols, const struct symbol *symbol);

#endif /* LOCKLINE_SYMBOLS_H */
